/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/subject.h"

#include <ctype.h>
#include <grp.h>
#include <pwd.h>

#include "common/util.h"

#define STATUS_MAX 8192

/* Effective and supplementary groups from status. */
static size_t read_groups(int proc_fd, pid_t pid, gid_t ret[SUBJECT_GROUPS_MAX])
{
	_cleanup_(closep) int fd = -EBADF;
	char buf[STATUS_MAX], path[64], *line, *end;
	size_t n = 0;
	ssize_t size;

	(void)snprintf(path, sizeof path, "%d/status", (int)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	size = fd < 0 ? -1 : read(fd, buf, sizeof buf - 1);
	if (size <= 0)
		return 0;
	buf[size] = '\0';
	line = strstr(buf, "\nGid:");
	if (line) {
		(void)strtoul(line + STRLEN("\nGid:"), &end, 10); /* the real one */
		ret[n++] = (gid_t)strtoul(end, NULL, 10);
	}
	line = strstr(buf, "\nGroups:");
	if (!line)
		return n;
	line += STRLEN("\nGroups:");
	while (n < SUBJECT_GROUPS_MAX) {
		line += strspn(line, " \t");
		if (!isdigit((unsigned char)*line))
			break;
		ret[n++] = (gid_t)strtoul(line, &line, 10);
	}
	return n;
}

void subject_of(const struct subject_source *s, const struct worker *w, struct subject *ret)
{
	struct job_source source = {
		.proc_fd = s->proc_fd,
		.cgroup_fd = s->cgroup_fd,
		.rt = &s->published->runtime,
		.assign = s->published->assign,
		.same_pidns = w->pidns == s->own_pidns,
	};
	struct job_subject place = {.pid = w->pid, .uid = w->uid, .pidns = w->pidns};
	struct job_facts facts = {0};

	*ret = (struct subject){.known = (1u << ASSIGN_KIND_MAX_) - 1};
	(void)job_place(&source, &place, &facts);
	(void)snprintf(ret->unit, sizeof ret->unit, "%s", facts.unit);
	(void)snprintf(ret->cgroup, sizeof ret->cgroup, "%s", facts.cgroup);
	ret->exe = w->exe ? strdup(w->exe) : NULL;
	ret->match = (struct assign_subject){
		.uid = w->uid,
		.gids = ret->groups,
		.n_gids = read_groups(s->proc_fd, w->pid, ret->groups),
		.unit = ret->unit[0] ? ret->unit : NULL,
		.cgroup = ret->cgroup[0] ? ret->cgroup : NULL,
		.exe = ret->exe,
	};
	/* Without a unit it is in none; without a program it may not be looked at. */
	if (!ret->exe)
		ret->known &= ~(1u << ASSIGN_EXE);
	if (!ret->match.cgroup)
		ret->known &= ~(1u << ASSIGN_CGROUP | 1u << ASSIGN_UNIT);
}

static int find_user(const char *user, struct subject *s)
{
	struct passwd *pw = getpwnam(user);
	int n = SUBJECT_GROUPS_MAX;
	char *end;
	unsigned long uid;

	if (!pw && isdigit((unsigned char)user[0])) {
		errno = 0;
		uid = strtoul(user, &end, 10);
		if (errno != 0 || *end != '\0' || uid >= UINT32_MAX)
			return -ESRCH;
		s->match.uid = (uid_t)uid;
		pw = getpwuid((uid_t)uid);
		s->known |= 1u << ASSIGN_UID;
	}
	if (!pw)
		return s->known & 1u << ASSIGN_UID ? 0 : -ESRCH;
	s->match.uid = pw->pw_uid;
	s->known |= 1u << ASSIGN_UID;
	if (getgrouplist(pw->pw_name, pw->pw_gid, s->groups, &n) < 0)
		return 0;
	s->match.n_gids = (size_t)n;
	s->known |= 1u << ASSIGN_GID;
	return 0;
}

int subject_given(const char *unit, const char *user, const char *exe, struct subject *ret)
{
	*ret = (struct subject){.match = {.uid = (uid_t)-1, .unit = unit, .exe = exe}};
	ret->match.gids = ret->groups;
	ret->known = (unit ? 1u << ASSIGN_UNIT : 0) | (exe ? 1u << ASSIGN_EXE : 0);
	return user ? find_user(user, ret) : 0;
}

void subject_done(struct subject *s)
{
	free(s->exe);
	s->exe = NULL;
}

bool subject_lacks(const struct subject *s, const struct assign_rule *rule)
{
	unsigned missed = rule->named & ~rule->held;

	return !rule->ended && missed != 0 && !(missed & s->known);
}

static char *groups_text(const struct subject *s)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (size_t i = 0; i < s->match.n_gids; i++)
		fprintf(f, "%s%u", i > 0 ? " " : "", (unsigned)s->match.gids[i]);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

char *subject_found(const struct subject *s, enum assign_kind kind)
{
	const char *text = kind == ASSIGN_UNIT     ? s->match.unit
			   : kind == ASSIGN_EXE    ? s->match.exe
			   : kind == ASSIGN_CGROUP ? s->match.cgroup
						   : NULL;
	char *number;

	if (!(s->known & 1u << kind))
		return NULL;
	if (kind == ASSIGN_UID)
		return asprintf(&number, "%u", (unsigned)s->match.uid) < 0 ? NULL : number;
	if (kind == ASSIGN_GID)
		return groups_text(s);
	return text ? strdup(text) : NULL;
}
