/* SPDX-License-Identifier: MIT */
#include "client/ctl/pytrust.h"

#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "common/util.h"

#define FUSE_TYPE 0x65735546

static void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

static bool trusted(const struct stat *st)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return false;
	if (S_ISLNK(st->st_mode))
		return true;
	/* In a sticky directory nobody replaces another one's entry. */
	return !(st->st_mode & (S_IWGRP | S_IWOTH)) ||
	       (S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX);
}

static void describe(const char *path, const struct stat *st, char *ret_who, size_t size)
{
	(void)snprintf(ret_who, size, "%s (owner %u, mode %04o)", path, (unsigned)st->st_uid,
		       (unsigned)st->st_mode & 07777);
}

/* Root's, and not writable by all; a group's right to write is taken. */
static bool roots(const struct stat *st)
{
	return st->st_uid == 0 && (S_ISLNK(st->st_mode) || !(st->st_mode & S_IWOTH) ||
				   (S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX));
}

/* Is every component of PATH GOOD, and none a link? */
static bool every_part(const char *path, bool (*good)(const struct stat *), char *ret_who,
		       size_t size)
{
	_cleanup_(freep) char *part = strdup(path);
	struct stat st;

	if (!part || *path != '/') {
		(void)snprintf(ret_who, size, "%s", path);
		return false;
	}
	for (const char *slash = path; slash; slash = strchr(slash + 1, '/')) {
		const char *next = strchr(slash + 1, '/');
		size_t n = next ? (size_t)(next - path) : strlen(path);

		memcpy(part, path, n);
		part[n] = '\0';
		if (slash == path) {
			if (lstat("/", &st) < 0 || !good(&st)) {
				(void)snprintf(ret_who, size, "/");
				return false;
			}
		}
		if (lstat(part, &st) < 0) {
			(void)snprintf(ret_who, size, "%s (%s)", part, strerror(errno));
			return false;
		}
		if (!good(&st) || S_ISLNK(st.st_mode)) {
			describe(part, &st, ret_who, size);
			return false;
		}
	}
	return true;
}

bool pytrust_path(const char *path, char *ret_who, size_t size)
{
	return every_part(path, trusted, ret_who, size);
}

bool pytrust_roots(const char *path, char *ret_who, size_t size)
{
	return every_part(path, roots, ret_who, size);
}

bool pytrust_entries(const char *directory, char *ret_who, size_t size)
{
	_cleanup_(closedirp) DIR *d = opendir(directory);
	struct dirent *e;
	struct stat st;

	if (!d)
		return errno == ENOENT;
	while ((e = readdir(d))) {
		char path[PATH_MAX];

		if (streq(e->d_name, ".."))
			continue;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && trusted(&st))
			continue;
		if (snprintf(path, sizeof path, "%s/%s", directory, e->d_name) < 0)
			path[0] = '\0';
		describe(path, &st, ret_who, size);
		return false;
	}
	return true;
}

/* --- file systems */

static const struct {
	long type;
	const char *name;
} network[] = {
	{0x6969, "nfs"},        {0xff534d42, "cifs"},     {0xfe534d42, "smb2"},
	{0x517b, "smb"},        {0x00c36400, "ceph"},     {0x0bd00bd0, "lustre"},
	{0x47504653, "gpfs"},   {0x5346414f, "afs"},      {0x6b414653, "afs"},
	{0x01021997, "9p"},     {0x19830326, "beegfs"},   {0x7461636f, "ocfs2"},
	{0x01161970, "gfs2"},   {0x20030528, "orangefs"}, {0xaad7aaea, "panfs"},
	{0x73757245, "coda"},   {0x564c, "ncp"},          {0x786f4256, "vboxsf"},
	{0xbacbacbc, "vmhgfs"},
};

static const char *const local_fuse[] = {
	"fuseblk",         "fuse.fuse-overlayfs", "fuse.ntfs-3g",   "fuse.lxcfs",
	"fuse.unionfs",    "fuse.mergerfs",       "fuse.gocryptfs", "fuse.encfs",
	"fuse.squashfuse", "fuse.squashfuse_ll"};

/* As mountinfo has them, beside those above and fuse. */
static const char *const more_network[] = {"nfs4",  "smb3",  "beegfs_nodev", "fhgfs",
					   "pvfs2", "ncpfs", "wekafs",       "virtiofs"};

static const char *network_fuse(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(local_fuse); i++)
		if (streq(local_fuse[i], name))
			return NULL;
	return "fuse";
}

const char *pytrust_network_type(long type, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(network); i++)
		if ((uint32_t)network[i].type == (uint32_t)type)
			return network[i].name;
	return (uint32_t)type == FUSE_TYPE ? network_fuse(name) : NULL;
}

const char *pytrust_network_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(network); i++)
		if (streq(network[i].name, name))
			return network[i].name;
	for (size_t i = 0; i < ARRAY_SIZE(more_network); i++)
		if (streq(more_network[i], name))
			return more_network[i];
	return startswith(name, "fuse.") ? network_fuse(name) : NULL;
}

/* The type that mountinfo gives for a device: "36 35 98:0 /root /mnt opts optional - TYPE source
 * opts". */
static bool mount_type(dev_t device, char *ret, size_t size)
{
	_cleanup_(fclosep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	size_t allocated = 0;

	while (f && getline(&line, &allocated, f) > 0) {
		unsigned ma, mi;
		const char *dash;

		if (sscanf(line, "%*u %*u %u:%u", &ma, &mi) != 2 || makedev(ma, mi) != device)
			continue;
		dash = strstr(line, " - ");
		if (!dash)
			continue;
		(void)snprintf(ret, size, "%.*s", (int)strcspn(dash + 3, " "), dash + 3);
		return true;
	}
	return false;
}

const char *pytrust_network(const char *path)
{
	char name[64];
	struct statfs fs;
	struct stat st;

	if (statfs(path, &fs) < 0 || stat(path, &st) < 0)
		return NULL;
	return pytrust_network_type((long)fs.f_type,
				    mount_type(st.st_dev, name, sizeof name) ? name : NULL);
}
