/* SPDX-License-Identifier: MIT */
/*
 * Pins. The exclusive symlinkat(2) is what decides between those who come at the same time: the
 * loser reads again.
 */
#include "common/pin.h"

#include "common/util.h"

#define TEXT_SIZE ((1 + PIN_MAX_FORMER) * (DIGEST_HEX + 1) + 1)
#define TRIES                                                                                      \
	64 /* a name is only lost to somebody who made a pin or who will not stop to annoy         \
	    */

/* One word of the text and the blank behind it; "" at the end. */
static int next_word(const char **s, char ret[DIGEST_SIZE])
{
	size_t n = strcspn(*s, " ");

	if (n > DIGEST_HEX)
		return -EBADMSG;
	memcpy(ret, *s, n);
	ret[n] = '\0';
	*s += n;
	if (**s == ' ') {
		(*s)++;
		if (**s == '\0')
			return -EBADMSG;
	}
	return 0;
}

int pin_parse(const char *text, struct pin *ret)
{
	struct pin pin = {.n_former = 0};

	if (next_word(&text, pin.digest) < 0)
		return -EBADMSG;
	if (streq(pin.digest, "none"))
		pin.digest[0] = '\0';
	else if (!digest_valid(pin.digest))
		return -EBADMSG;
	for (; *text != '\0'; pin.n_former++) {
		if (pin.n_former == PIN_MAX_FORMER ||
		    next_word(&text, pin.former[pin.n_former]) < 0 ||
		    !digest_valid(pin.former[pin.n_former]))
			return -EBADMSG;
	}
	*ret = pin;
	return 0;
}

bool pin_has(const struct pin *pin, const char *digest)
{
	if (digest[0] == '\0')
		return false;
	if (streq(pin->digest, digest))
		return true;
	for (unsigned i = 0; i < pin->n_former; i++)
		if (streq(pin->former[i], digest))
			return true;
	return false;
}

int pin_read_name(const struct runtime *rt, const char *name, uid_t owner, struct pin *ret)
{
	char text[TEXT_SIZE];
	int r;

	r = runtime_readlink(rt, rt->jobs_fd, name, owner, text, sizeof text);
	if (r == 0)
		r = pin_parse(text, ret);
	return r == -EBADMSG || r == -ENAMETOOLONG ? -EPERM : r;
}

/* KEY's name in jobs/ for SLOT. */
static void slot_name(const char *key, unsigned slot, char ret[JOB_KEY_SIZE + 2])
{
	char *end = stpncpy(ret, key, JOB_KEY_MAX);

	*end = '\0';
	if (slot > 0) {
		end[0] = '~';
		end[1] = (char)('0' + slot);
		end[2] = '\0';
	}
}

/* Looks at all names of KEY: the first believed pin, else -ENOENT with the first free slot, else
 * -EPERM. Other errors: a name could not be judged. */
static int look(const struct runtime *rt, const char *key, uid_t owner, bool may_remove,
		struct pin *ret, unsigned *ret_free)
{
	bool any_free = false;

	for (unsigned slot = 0; slot < JOB_SLOTS; slot++) {
		char name[JOB_KEY_SIZE + 2];
		int r;

		slot_name(key, slot, name);
		r = pin_read_name(rt, name, owner, ret);
		if (r == -EPERM && may_remove && runtime_clear(rt->jobs_fd, name) == 0)
			r = -ENOENT;
		if (r == 0)
			ret->slot = slot;
		if (r != -ENOENT && r != -EPERM)
			return r;
		if (r == -ENOENT && !any_free) {
			any_free = true;
			*ret_free = slot;
		}
	}
	return any_free ? -ENOENT : -EPERM;
}

int pin_read(const struct runtime *rt, const char *key, uid_t owner, struct pin *ret)
{
	unsigned ignored;
	struct pin pin;
	int r;

	if (rt->jobs_fd < 0)
		return -ENOENT;
	r = look(rt, key, owner, false, &pin, &ignored);
	if (r == 0)
		*ret = pin;
	return r;
}

int pin_settle(const struct runtime *rt, const char *key, uid_t owner, const char *digest,
	       struct pin *ret)
{
	bool may_remove = rt->self == 0 || rt->self == rt->broker;

	if (rt->jobs_fd < 0)
		return -EBADF;
	for (unsigned i = 0; i < TRIES; i++) {
		char name[JOB_KEY_SIZE + 2];
		struct pin pin;
		unsigned slot;
		int r;

		r = look(rt, key, owner, may_remove, &pin, &slot);
		if (r == 0) {
			*ret = pin;
			return 0;
		}
		if (r != -ENOENT)
			return r;
		slot_name(key, slot, name);
		if (symlinkat(digest && digest[0] ? digest : "none", rt->jobs_fd, name) == 0) {
			*ret = (struct pin){.slot = slot};
			(void)stpcpy(ret->digest, digest ? digest : "");
			return 1;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EPERM;
}

/* The text of FROM once it has DIGEST: a token of any digest that it ever had still names the job.
 */
static int release_text(const struct pin *from, const char *digest, char ret[TEXT_SIZE])
{
	unsigned n = 0;
	char *end = stpcpy(ret, digest[0] ? digest : "none");

	for (unsigned i = 0; i <= from->n_former; i++) {
		const char *former = i == 0 ? from->digest : from->former[i - 1];

		if (former[0] == '\0' || streq(former, digest))
			continue;
		if (n++ == PIN_MAX_FORMER)
			return -E2BIG;
		*end++ = ' ';
		end = stpcpy(end, former);
	}
	return 0;
}

int pin_release(const struct runtime *rt, const char *key, uid_t owner, const char *digest,
		struct pin *ret)
{
	static const char beside[] = ".release"; /* left behind by a crash, it is taken again */
	char text[TEXT_SIZE], name[JOB_KEY_SIZE + 2];
	struct pin pin;
	int r;

	r = pin_read(rt, key, owner, &pin);
	if (r == 0)
		r = release_text(&pin, digest, text);
	if (r < 0)
		return r;
	if (!streq(pin.digest, digest)) {
		for (unsigned i = 0; i < TRIES && r == 0; i++)
			if (symlinkat(text, rt->jobs_fd, beside) == 0)
				r = 1;
			else if (errno != EEXIST || runtime_clear(rt->jobs_fd, beside) < 0)
				return -errno;
		if (r == 0)
			return -EPERM;
		slot_name(key, pin.slot, name);
		if (renameat(rt->jobs_fd, beside, rt->jobs_fd, name) < 0) {
			r = -errno;
			(void)unlinkat(rt->jobs_fd, beside, 0);
			return r;
		}
	}
	*ret = pin;
	return r;
}
