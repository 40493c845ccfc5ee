/* SPDX-License-Identifier: MIT */
#include "common/scope.h"

#include <pwd.h>
#include <stdarg.h>

#include "common/util.h"

static const char *const suffixes[] = {".service", ".scope"};
static const char *const others[] = {".socket", ".device", ".mount", ".automount", ".swap",
				     ".target", ".path",   ".timer", ".slice"};

static bool _printf_(2, 3) say(char **ret, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(ret, format, ap);
	va_end(ap);
	if (n < 0)
		*ret = NULL;
	return n >= 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n > k && streq(s + n - k, end);
}

static bool ends_with_any(const char *s, const char *const *ends, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ends_with(s, ends[i]))
			return true;
	return false;
}

/* What systemd allows in a unit's name; a backslash begins an escape of its own. */
static bool unit_characters(const char *name)
{
	for (const char *p = name; *p; p++)
		if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') &&
		    !(*p >= '0' && *p <= '9') && !strchr(":-_.\\@", *p))
			return false;
	return name[0] != '\0' && name[0] != '.';
}

bool scope_unit_valid(const char *name)
{
	return strlen(name) < SCOPE_NAME_SIZE && unit_characters(name) &&
	       ends_with_any(name, suffixes, ARRAY_SIZE(suffixes));
}

bool scope_user_valid(const char *name)
{
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '/')
			return false;
	return name[0] != '\0' && name[0] != ' ' && strlen(name) < SCOPE_NAME_SIZE;
}

static int parse_unit(const char *name, struct scope *ret, char **ret_fault)
{
	struct scope s = {.kind = SCOPE_UNIT};
	const char *end = ends_with_any(name, suffixes, ARRAY_SIZE(suffixes)) ? "" : ".service";
	int n;

	if (strpbrk(name, "*?["))
		return say(ret_fault,
			   "a unit is named exactly, '%.80s' is a pattern: write an [assign NAME] "
			   "rule "
			   "into cudaenvd.conf",
			   name)
			       ? -EINVAL
			       : -ENOMEM;
	if (ends_with_any(name, others, ARRAY_SIZE(others)))
		return say(ret_fault,
			   "no process is in unit '%.80s': only services and scopes have some",
			   name)
			       ? -EINVAL
			       : -ENOMEM;
	n = snprintf(s.name, sizeof s.name, "%s%s", name, end);
	if (n < 0 || (size_t)n >= sizeof s.name || !unit_characters(name))
		return say(ret_fault, "'%.80s' is no name of a unit", name) ? -EINVAL : -ENOMEM;
	*ret = s;
	return 0;
}

/* 1, or 0: not a number. */
static int parse_number(const char *name, uid_t *ret)
{
	unsigned long n;
	char *end;

	if (name[0] < '0' || name[0] > '9')
		return 0;
	errno = 0;
	n = strtoul(name, &end, 10);
	if (*end != '\0')
		return 0;
	/* The largest is no uid but "unchanged". */
	if (errno != 0 || n >= UINT32_MAX)
		return -ERANGE;
	*ret = (uid_t)n;
	return 1;
}

static int parse_user(const char *name, struct scope *ret, char **ret_fault)
{
	struct scope s = {.kind = SCOPE_USER};
	const struct passwd *pw;
	int r = parse_number(name, &s.uid);

	if (r < 0)
		return say(ret_fault, "'%.80s' is no user's number", name) ? -EINVAL : -ENOMEM;
	if (r == 0 && !scope_user_valid(name))
		return say(ret_fault, "'%.80s' is no name of a user", name) ? -EINVAL : -ENOMEM;
	pw = r > 0 ? getpwuid(s.uid) : getpwnam(name);
	if (!pw && r == 0)
		return say(ret_fault, "there is no user '%.80s'", name) ? -ENOENT : -ENOMEM;
	if (pw)
		s.uid = pw->pw_uid;
	if (pw && scope_user_valid(pw->pw_name))
		(void)snprintf(s.name, sizeof s.name, "%s", pw->pw_name);
	else
		(void)snprintf(s.name, sizeof s.name, "%u", (unsigned)s.uid);
	*ret = s;
	return 0;
}

int scope_parse(const char *text, struct scope *ret, char **ret_fault)
{
	const char *name;

	if (streq(text, "node")) {
		*ret = (struct scope){.kind = SCOPE_NODE};
		return 0;
	}
	if ((name = startswith(text, "unit ")))
		return parse_unit(name, ret, ret_fault);
	if ((name = startswith(text, "user ")))
		return parse_user(name, ret, ret_fault);
	return say(ret_fault, "'%.80s' is no scope: node, unit NAME or user NAME", text) ? -EINVAL
											 : -ENOMEM;
}

void scope_format(const struct scope *s, char ret[SCOPE_TEXT_SIZE])
{
	if (s->kind == SCOPE_NODE)
		(void)strcpy(ret, "node");
	else
		(void)snprintf(ret, SCOPE_TEXT_SIZE, "%s %s",
			       s->kind == SCOPE_UNIT ? "unit" : "user", s->name);
}

bool scope_same(const struct scope *a, const struct scope *b)
{
	return a->kind == b->kind && (a->kind != SCOPE_UNIT || streq(a->name, b->name)) &&
	       (a->kind != SCOPE_USER || a->uid == b->uid);
}
