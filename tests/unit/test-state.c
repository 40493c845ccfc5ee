/* SPDX-License-Identifier: MIT */
#include <sys/wait.h>

#include "common/digest.h"
#include "daemon/manager/state.h"
#include "tests/unit/crash.h"
#include "tests/unit/temp.h"

#define D1 "1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "2222222222222222222222222222222222222222222222222222222222222222"
#define D3 "3333333333333333333333333333333333333333333333333333333333333333"

static struct state *open_state(struct words *complaints)
{
	struct state *s = NULL;
	pid_t pid;

	check(state_open(temp_path("state"), &s, complaints, &pid) == 0);
	return s;
}

static struct active make_active(uint64_t generation, const char *profile, const char *digest)
{
	struct active a = {.generation = generation, .mode = MODE_ON, .chosen = true};

	strcpy(a.profile, profile);
	strcpy(a.digest, digest);
	check(active_set_applied(&a, profile, digest) == 0);
	check(active_set_applied(&a, "other", D3) == 0);
	return a;
}

static int record(struct state *s, const char *action, const char *from, const char *to)
{
	struct history_entry e = {
		.time = 1000000000,
		.generation = s->active.generation,
		.uid = 0,
		.action = strdup(action),
		.scope = strdup("node"),
		.from = from ? strdup(from) : NULL,
		.to = to ? strdup(to) : NULL,
		.reason = strdup("because \"quoted\"\n\xc3\xa9"),
	};
	int r = state_record(s, &e);

	history_entry_done(&e);
	return r;
}

static void fresh(void)
{
	temp_remove(temp_path("state"));
}

TEST(nothing_yet)
{
	struct words complaints = {0};
	struct state *s;
	struct stat st;

	temp_begin();
	s = open_state(&complaints);
	check(complaints.n == 0 && !s->found);
	check(s->active.mode == MODE_OBSERVE && s->active.generation == 0 && !s->active.digest[0]);
	check(stat(temp_path("state"), &st) == 0 && (st.st_mode & 0777) == 0700);
	state_free(s);
}

TEST(one_manager_at_a_time)
{
	struct words complaints = {0};
	struct state *s = open_state(&complaints), *second = NULL;
	pid_t pid = 0;

	check(state_open(temp_path("state"), &second, &complaints, &pid) == -EBUSY);
	check(pid == getpid() && !second);
	state_free(s);
	state_free(open_state(&complaints));
}

TEST(round_trip)
{
	struct words complaints = {0};
	struct active a = make_active(41, "p", D1);
	struct state *s = open_state(&complaints);

	check(state_save(s, &a) == 0);
	check(record(s, "use", NULL, D1) == 0);
	state_free(s);
	s = open_state(&complaints);
	check(complaints.n == 0 && s->found);
	check(s->active.generation == 41 && s->active.mode == MODE_ON && s->active.chosen);
	check_streq(s->active.profile, "p");
	check_streq(s->active.digest, D1);
	check_streq(active_applied(&s->active, "other"), D3);
	check(!active_applied(&s->active, "nobody"));
	check(s->n_history == 1 && s->history[0].time == 1000000000);
	check_streq(s->history[0].reason, "because \"quoted\"\n\xc3\xa9");
	check(!s->history[0].from);
	active_done(&a);
	state_free(s);
}

/* cudaenvctl off with the daemon dead changes this line and nothing else. */
TEST(mode_line_can_be_rewritten)
{
	static const char text[] =
		"cudaenv-active 1\ngeneration 3\nmode off\nchosen no\nprofile -\n"
		"digest none\nend\n";
	struct active a;

	check(active_parse(text, strlen(text), &a) == 0);
	check(a.mode == MODE_OFF && a.generation == 3);
	active_done(&a);
}

TEST(every_cut_or_bent_active_is_refused)
{
	struct active a = make_active(41, "p", D1), b;
	char *text = NULL;
	size_t size;

	check(active_format(&a, &text) == 0);
	size = strlen(text);
	check(active_parse(text, size, &b) == 0);
	active_done(&b);
	for (size_t n = 0; n < size; n++)
		check(active_parse(text, n, &b) == -EBADMSG);
	for (size_t n = 0; n < size; n++) {
		char was = text[n];

		text[n] = '\0';
		check(active_parse(text, size, &b) == -EBADMSG);
		text[n] = was;
	}
	free(text);
	active_done(&a);
}

TEST(damaged_active_is_moved_aside)
{
	static const char *const damages[] = {"", "garbage", "cudaenv-active 1\ngeneration 9\n"};

	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		struct words complaints = {0};
		struct active a = make_active(5, "p", D1);
		_cleanup_(freep) char *aside = NULL;
		struct state *s;

		fresh();
		s = open_state(&complaints);
		check(state_save(s, &a) == 0 && record(s, "on", "observe", "on") == 0);
		check(record(s, "use", NULL, D1) == 0 && record(s, "use", D1, D2) == 0);
		state_free(s);
		temp_put(temp_path("state/active"), damages[i]);
		s = open_state(&complaints);
		check(complaints.n == 2); /* moved aside; taken from the history */
		check(strstr(complaints.items[0], "active.damaged-0"));
		aside = temp_get(temp_path("state/active.damaged-0"));
		check_streq(aside, damages[i]);
		check(s->active.mode == MODE_ON && s->active.generation == 5 && s->active.chosen);
		check_streq(s->active.digest, D2);
		words_done(&complaints);
		active_done(&a);
		state_free(s);
	}
}

TEST(damaged_history)
{
	struct words complaints = {0};
	struct state *s;
	char *text;
	FILE *f;

	fresh();
	s = open_state(&complaints);
	check(record(s, "use", NULL, D1) == 0 && record(s, "use", D1, D2) == 0);
	state_free(s);

	/* A write that was cut: dropped without a word. */
	f = fopen(temp_path("state/history"), "ae");
	check(f && fputs("{\"time\":\"20", f) >= 0 && fclose(f) == 0);
	s = open_state(&complaints);
	check(complaints.n <= 1 && s->n_history == 2); /* says that active is not there */
	words_done(&complaints);
	check(record(s, "use", D2, D3) == 0);
	state_free(s);
	s = open_state(&complaints);
	check(s->n_history == 3);
	words_done(&complaints);
	state_free(s);

	/* Damage inside: what can be read stays, the file is moved aside. */
	f = fopen(temp_path("state/history"), "ae");
	check(f && fputs("{\"time\":7}\nnonsense\n", f) >= 0 && fclose(f) == 0);
	s = open_state(&complaints);
	check(complaints.n >= 1 && strstr(complaints.items[0], "history.damaged-0"));
	check(s->n_history == 3);
	words_done(&complaints);
	check(record(s, "use", D3, D1) == 0);
	state_free(s);
	text = temp_get(temp_path("state/history"));
	check(text && !strstr(text, "nonsense") && strstr(text, D2));
	free(text);
	s = open_state(&complaints);
	check(s->n_history == 4 && s->active.digest[0] == '1');
	words_done(&complaints);
	state_free(s);
}

TEST(history_is_bounded)
{
	struct words complaints = {0};
	struct active a = make_active(1, "p", D1);
	struct state *s;

	fresh();
	s = open_state(&complaints);
	check(state_save(s, &a) == 0);
	active_done(&a);
	for (int i = 0; i < STATE_HISTORY_MAX + 10; i++)
		check(record(s, "use", i % 2 ? D1 : D2, i % 2 ? D2 : D1) == 0);
	check(s->n_history <= STATE_HISTORY_MAX && s->n_history >= STATE_HISTORY_MAX / 2);
	state_free(s);
	s = open_state(&complaints);
	check(s->n_history <= STATE_HISTORY_MAX && complaints.n == 0);
	state_free(s);
}

static void previous_is(const struct state *s, const char *digest)
{
	char found[DIGEST_SIZE] = "x";

	check(state_previous(s, found) == (digest ? 1 : 0));
	if (digest)
		check_streq(found, digest);
}

TEST(rollback_walks_back)
{
	struct words complaints = {0};
	struct state *s;

	fresh();
	s = open_state(&complaints);
	previous_is(s, NULL);
	check(record(s, "use", NULL, D1) == 0);
	previous_is(s, "");
	check(record(s, "on", "observe", "on") == 0);
	check(record(s, "use", D1, D2) == 0 && record(s, "use", D2, D3) == 0);
	previous_is(s, D2);
	check(record(s, "rollback", D3, D2) == 0);
	previous_is(s, D1);
	check(record(s, "off", "on", "off") == 0);
	check(record(s, "rollback", D2, D1) == 0);
	previous_is(s, "");
	check(record(s, "use", D1, D3) == 0);
	previous_is(s, D1);
	state_free(s);
}

static void digest_of(int i, char bytes[32], char digest[DIGEST_SIZE])
{
	(void)snprintf(bytes, 32, "snapshot %d\n", i);
	digest_bytes(bytes, strlen(bytes), digest);
}

TEST(last_snapshots_are_kept)
{
	struct words complaints = {0}, keep = {0};
	char bytes[32], digest[DIGEST_SIZE], *text = NULL;
	struct state *s;
	size_t size;
	int left = 0;

	fresh();
	s = open_state(&complaints);
	digest_of(0, bytes, digest);
	check(words_add(&keep, digest) == 0);
	for (int i = 0; i < STATE_SNAPSHOTS_MAX + 6; i++) {
		struct timespec times[2] = {{.tv_sec = i + 1}, {.tv_sec = i + 1}};

		digest_of(i, bytes, digest);
		check(state_store(s, digest, bytes, strlen(bytes)) == 0);
		check(utimensat(s->snapshots_fd, digest, times, 0) == 0);
	}
	check(state_prune(s, &keep) == 0);
	for (int i = 0; i < STATE_SNAPSHOTS_MAX + 6; i++) {
		int r;

		digest_of(i, bytes, digest);
		r = state_fetch(s, digest, &text, &size);
		check(r ==
		      (i == 0 || i > 6 ? 0 : -ENOENT)); /* 0 is in force, 1 to 6 are the oldest */
		left += r == 0;
		if (r == 0) {
			check_streq(text, bytes);
			free(text);
		}
	}
	check(left == STATE_SNAPSHOTS_MAX);

	/* A damaged one is not given out, and can be stored again. */
	check(unlinkat(s->snapshots_fd, digest, 0) == 0);
	temp_put(temp_path("state/snapshots/%s", digest), "snapshot 7\n");
	check(state_fetch(s, digest, &text, &size) == -EUCLEAN);
	check(state_store(s, digest, bytes, strlen(bytes)) == 0);
	check(state_fetch(s, digest, &text, &size) == 0);
	free(text);
	words_done(&keep);
	state_free(s);
}

/* A directory, a FIFO or a link in a file's place neither blocks nor is believed. */
TEST(strange_files)
{
	struct words complaints = {0};
	struct active a = make_active(1, "p", D1);
	struct state *s;

	fresh();
	state_free(open_state(&complaints));
	check(mkfifo(temp_path("state/active"), 0600) == 0);
	check(mkdir(temp_path("state/history"), 0700) == 0);
	s = open_state(&complaints);
	check(complaints.n == 2 && !s->found);
	words_done(&complaints);
	check(state_save(s, &a) == 0 && record(s, "use", NULL, D1) == 0);
	state_free(s);
	s = open_state(&complaints);
	check(complaints.n == 0 && s->found && s->n_history == 1);
	active_done(&a);
	state_free(s);
}

/* Writes the second state over the first and dies at call N; true: got through. */
static bool change_and_crash(int n)
{
	pid_t pid = fork();
	int status;

	check(pid >= 0);
	if (pid == 0) {
		struct words complaints = {0}, keep = {0};
		struct active a = make_active(2, "p", D2);
		char bytes[32], digest[DIGEST_SIZE];
		struct state *s = open_state(&complaints);

		digest_of(1, bytes, digest);
		crash_at(n);
		check(state_store(s, digest, bytes, strlen(bytes)) == 0);
		check(state_prune(s, &keep) == 0);
		check(state_save(s, &a) == 0 && record(s, "use", D1, D2) == 0);
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	check(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == CRASH_STATUS);
	return WEXITSTATUS(status) == 0;
}

TEST(crash_at_every_step)
{
	bool done = false;
	int points = 0;

	for (int n = 0; !done; n++) {
		struct words complaints = {0};
		struct active a = make_active(1, "p", D1);
		char bytes[32], digest[DIGEST_SIZE];
		_cleanup_(freep) char *text = NULL;
		struct state *s;
		size_t size;
		int r;

		fresh();
		s = open_state(&complaints);
		check(state_save(s, &a) == 0 && record(s, "use", NULL, D1) == 0);
		state_free(s);
		done = change_and_crash(n);
		s = open_state(&complaints);
		check(complaints.n == 0 && s->found);
		check(s->active.generation == 1 || s->active.generation == 2);
		check_streq(s->active.digest, s->active.generation == 1 ? D1 : D2);
		check(s->n_history == 1 || (s->n_history == 2 && s->active.generation == 2));
		check(!done || (s->active.generation == 2 && s->n_history == 2));
		digest_of(1, bytes, digest);
		r = state_fetch(s, digest, &text, &size);
		check(r == 0 || r == -ENOENT);
		check(r == 0 || s->active.generation == 1);
		active_done(&a);
		state_free(s);
		points = n;
	}
	printf("%d points\n", points);
	check(points >= 10);
}

/* A full disk: the change is in memory, and on disk as soon as there is room. */
TEST(full_disk)
{
	struct words complaints = {0};
	struct active a = make_active(1, "p", D1), b = make_active(2, "p", D2);
	struct state *s;

	fresh();
	s = open_state(&complaints);
	check(state_save(s, &a) == 0 && record(s, "use", NULL, D1) == 0);
	fail_from(0, ENOSPC);
	check(state_save(s, &b) == -ENOSPC);
	check(record(s, "use", D1, D2) == -ENOSPC);
	check_streq(s->active.digest, D2);
	check(s->n_history == 2);
	fail_from(0, 0);
	check(state_save(s, &s->active) == 0);
	state_free(s);
	s = open_state(&complaints);
	check(complaints.n == 0 && s->n_history == 2);
	check_streq(s->active.digest, D2);
	active_done(&a);
	active_done(&b);
	state_free(s);
}

TEST_MAIN
