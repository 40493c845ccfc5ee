/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A hash table of nodes that lie inside the caller's structs. Hashes are keyed with random bytes,
 * because clients choose parts of the keys (token, report). The table never frees a node.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_node {
	struct table_node *next; /* bucket */
	uint64_t hash;
};

struct table {
	struct table_node **buckets;
	size_t n_buckets; /* a power of two, or 0 */
	size_t n;
	uint64_t seed[2];
};

#define TABLE_CONTAINER(node, type, member)                                                        \
	((type *)(void *)((char *)(node)-offsetof(type, member)))

/* 0, or negative errno when there is no randomness. Allocates nothing. */
int table_init(struct table *t);
/* Frees the buckets; the nodes are the caller's. */
void table_done(struct table *t);

uint64_t table_hash(const struct table *t, const void *data, size_t size);

/* Makes room for one more node: table_add() cannot fail after it. 0 or -ENOMEM. */
int table_reserve(struct table *t);
void table_add(struct table *t, struct table_node *node, uint64_t hash);
void table_remove(struct table *t, struct table_node *node);

/* First node of HASH for which MATCH says yes, or NULL. */
struct table_node *table_find(const struct table *t, uint64_t hash,
			      bool (*match)(const struct table_node *node, const void *key),
			      const void *key);

/* Each node once, in no order; NULL at the end. PREVIOUS: what the last call returned, NULL first.
 * PREVIOUS may have been removed only after its successor was fetched. */
struct table_node *table_next(const struct table *t, const struct table_node *previous);
