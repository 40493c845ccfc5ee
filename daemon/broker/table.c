/* SPDX-License-Identifier: MIT */
#include "daemon/broker/table.h"

#include <sys/random.h>

#include "common/util.h"

#define BUCKETS_FIRST 64

int table_init(struct table *t)
{
	*t = (struct table){0};
	if (getrandom(t->seed, sizeof t->seed, 0) != (ssize_t)sizeof t->seed)
		return errno ? -errno : -EIO;
	t->seed[1] |= 1;
	return 0;
}

void table_done(struct table *t)
{
	free(t->buckets);
	*t = (struct table){0};
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t table_hash(const struct table *t, const void *data, size_t size)
{
	const unsigned char *p = data;
	uint64_t h = t->seed[0] ^ mix(size + 1, t->seed[1]), word;

	for (; size >= sizeof word; p += sizeof word, size -= sizeof word) {
		memcpy(&word, p, sizeof word);
		h = mix(h ^ word, t->seed[1]) + t->seed[0];
	}
	word = 0;
	memcpy(&word, p, size);
	return mix(mix(h ^ word, t->seed[1]) ^ t->seed[0], 0x9e3779b97f4a7c15u);
}

int table_reserve(struct table *t)
{
	size_t n = t->n_buckets ? t->n_buckets * 2 : BUCKETS_FIRST;
	struct table_node **buckets;

	if (t->n < t->n_buckets)
		return 0;
	buckets = calloc(n, sizeof(struct table_node *));
	if (!buckets)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_buckets; i++)
		for (struct table_node *node = t->buckets[i], *next; node; node = next) {
			struct table_node **to = &buckets[node->hash & (n - 1)];

			next = node->next;
			node->next = *to;
			*to = node;
		}
	free(t->buckets);
	t->buckets = buckets;
	t->n_buckets = n;
	return 0;
}

void table_add(struct table *t, struct table_node *node, uint64_t hash)
{
	struct table_node **to = &t->buckets[hash & (t->n_buckets - 1)];

	node->hash = hash;
	node->next = *to;
	*to = node;
	t->n++;
}

void table_remove(struct table *t, struct table_node *node)
{
	for (struct table_node **p = &t->buckets[node->hash & (t->n_buckets - 1)]; *p;
	     p = &(*p)->next)
		if (*p == node) {
			*p = node->next;
			node->next = NULL;
			t->n--;
			return;
		}
}

struct table_node *table_find(const struct table *t, uint64_t hash,
			      bool (*match)(const struct table_node *node, const void *key),
			      const void *key)
{
	if (t->n_buckets == 0)
		return NULL;
	for (struct table_node *node = t->buckets[hash & (t->n_buckets - 1)]; node;
	     node = node->next)
		if (node->hash == hash && match(node, key))
			return node;
	return NULL;
}

struct table_node *table_next(const struct table *t, const struct table_node *previous)
{
	size_t i = 0;

	if (previous) {
		if (previous->next)
			return previous->next;
		i = (previous->hash & (t->n_buckets - 1)) + 1;
	}
	for (; i < t->n_buckets; i++)
		if (t->buckets[i])
			return t->buckets[i];
	return NULL;
}
