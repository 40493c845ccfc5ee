/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/import-profile.h"

#include <stdarg.h>
#include <stdio.h>

#include "client/ctl/text.h"
#include "common/util.h"

/* Of the 512 KiB that a profile may have; the rest is for section lines. */
#define VARIABLES_BUDGET ((size_t)400 * 1024)
#define NOTES_BUDGET     ((size_t)64 * 1024)
/* CUDAENV_APPLIED names what was set, with eight bytes more for each. */
#define MARKS_BUDGET ((size_t)120 * 1024)
#define NCCL_GROUP   "nccl"

static const struct {
	const char *name, *below; /* the root */
} toolkit_members[] = {
	{"CUDA_HOME", ""},
	{"CUDA_PATH", ""},
	{"TRITON_PTXAS_PATH", "/bin/ptxas"},
	{"TRITON_PTXAS_BLACKWELL_PATH", "/bin/ptxas"},
	{"TRITON_CUOBJDUMP_PATH", "/bin/cuobjdump"},
	{"TRITON_NVDISASM_PATH", "/bin/nvdisasm"},
};

struct making {
	struct import *im;
	const struct import_profile_options *options;
	struct import_profile p;
	FILE *out;
	unsigned line; /* being written */
	bool toolkit_force;
};

void import_profile_done(struct import_profile *p)
{
	free(p->text);
	free(p->chosen);
	free(p->toolkit_root);
	*p = (struct import_profile){0};
}

bool import_known_family(const char *name, const struct facts *facts)
{
	return startswith(name, "CUDA_") || startswith(name, "NCCL_") ||
	       startswith(name, "TORCH_NCCL_") || startswith(name, "TRITON_") ||
	       (facts && facts_must_match(facts, name));
}

/* --- which variables */

/* Why the bytes of a value cannot stand in a line of a profile, or NULL. */
static const char *bytes_fault(const char *value)
{
	size_t size = strlen(value);
	char last = size > 0 ? value[size - 1] : 'x';

	for (size_t i = 0; i < size;) {
		unsigned code = 0;
		size_t n = text_utf8(value + i, size - i, &code);

		if (n == 0)
			return "its value is not UTF-8";
		if (code == '\n')
			return "its value has several lines";
		if ((code < 0x20 && code != '\t') || (code >= 0x7f && code < 0xa0))
			return "its value has a control character";
		i += n;
	}
	if (value[0] == ' ' || value[0] == '\t' || last == ' ' || last == '\t')
		return "its value begins or ends with a blank, which a profile does not keep";
	return NULL;
}

static const struct finding *first_error(const struct profile *p)
{
	for (size_t i = 0; i < p->findings.n; i++)
		if (p->findings.items[i].severity == FINDING_ERROR)
			return &p->findings.items[i];
	return NULL;
}

/* Alone in a profile, has it errors there? 1: it is good; 0: a note says why not. */
static int judge(struct import *im, const struct import_item *item)
{
	_cleanup_(profile_freep) struct profile *p = NULL;
	_cleanup_(freep) char *text = NULL;
	const char *fault = bytes_fault(item->value);
	const struct finding *error;
	int r;

	if (fault)
		return import_note_item(im, item, "%s", fault);
	if (asprintf(&text, "[%s]\n%s = %s\n", item->state == IMPORT_UNSET ? "env.unset" : "env",
		     item->name, item->value) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	r = profile_parse("imported", "imported", text, strlen(text), NULL, &p);
	if (r < 0)
		return r;
	error = first_error(p);
	if (error)
		return import_note_item(im, item, "%s", error->message);
	return p->n_variables == 1 && streq(p->variables[0].value, item->value)
		       ? 1
		       : import_note_item(im, item, "a profile does not keep its value as it is");
}

static int choose(struct making *m)
{
	size_t bytes = 0, marks = 0;

	m->p.chosen = calloc(m->im->n_items + 1, sizeof *m->p.chosen);
	if (!m->p.chosen)
		return -ENOMEM;
	for (size_t i = 0; i < m->im->n_items; i++) {
		const struct import_item *item = &m->im->items[i];
		int r;

		if (item->state == IMPORT_UNKNOWN)
			continue;
		if (m->options->process && !import_known_family(item->name, m->options->facts)) {
			m->p.n_others++;
			continue;
		}
		r = judge(m->im, item);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		bytes += strlen(item->name) + strlen(item->value) + 4 * strlen(item->file) + 32;
		marks += strlen(item->name) + 8;
		if (bytes > VARIABLES_BUDGET || marks > MARKS_BUDGET) {
			r = import_note_item(m->im, item, "a profile would be too large with it");
			if (r < 0)
				return r;
			bytes -= strlen(item->value);
			continue;
		}
		m->p.chosen[m->p.n_chosen++] = (struct import_chosen){
			.item = item,
			.rule = item->state == IMPORT_FORCE   ? SNAPSHOT_FORCE
				: item->state == IMPORT_UNSET ? SNAPSHOT_UNSET
							      : SNAPSHOT_DEFAULT,
		};
	}
	return 0;
}

/* --- groups */

static struct import_chosen *chosen_find(const struct import_profile *p, const char *name)
{
	for (size_t i = 0; i < p->n_chosen; i++)
		if (streq(p->chosen[i].item->name, name))
			return &p->chosen[i];
	return NULL;
}

static const char *toolkit_below(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(toolkit_members); i++)
		if (streq(toolkit_members[i].name, name))
			return toolkit_members[i].below;
	return NULL;
}

/* Two variables or more that one root gives, all by one rule, become [toolkit]. */
static int find_toolkit(struct making *m)
{
	const struct import_chosen *first = chosen_find(&m->p, "CUDA_HOME");
	const char *root;
	size_t n = 0;

	first = first ? first : chosen_find(&m->p, "CUDA_PATH");
	if (!first || first->rule == SNAPSHOT_UNSET)
		return 0;
	root = first->item->value;
	if (root[0] != '/' || root[strlen(root) - 1] == '/')
		return 0;
	for (size_t i = 0; i < m->p.n_chosen; i++) {
		const struct import_chosen *c = &m->p.chosen[i];
		const char *below = toolkit_below(c->item->name),
			   *rest = startswith(c->item->value, root);

		if (!below)
			continue;
		if (!rest || !streq(rest, below) || c->rule != first->rule)
			return 0;
		n++;
	}
	if (n < 2)
		return 0;
	m->toolkit_force = first->rule == SNAPSHOT_FORCE;
	m->p.toolkit_root = strdup(root);
	if (!m->p.toolkit_root)
		return -ENOMEM;
	for (size_t i = 0; i < m->p.n_chosen; i++)
		if (toolkit_below(m->p.chosen[i].item->name)) {
			m->p.chosen[i].rule = SNAPSHOT_TOGETHER;
			m->p.chosen[i].group = PROFILE_TOOLKIT_GROUP;
		}
	return 0;
}

static void drop_toolkit(struct making *m)
{
	free(m->p.toolkit_root);
	m->p.toolkit_root = NULL;
	for (size_t i = 0; i < m->p.n_chosen; i++)
		if (m->p.chosen[i].group && streq(m->p.chosen[i].group, PROFILE_TOOLKIT_GROUP)) {
			m->p.chosen[i].group = NULL;
			m->p.chosen[i].rule = m->toolkit_force ? SNAPSHOT_FORCE : SNAPSHOT_DEFAULT;
		}
}

static bool belongs_together(const struct making *m, const struct import_chosen *c)
{
	return c->rule == SNAPSHOT_DEFAULT && startswith(c->item->name, "NCCL_") &&
	       facts_must_match(m->options->facts, c->item->name);
}

/* What all ranks must have alike: half of a tuning is worse than none. */
static void find_together(struct making *m)
{
	size_t n = 0;

	for (size_t i = 0; m->options->facts && i < m->p.n_chosen; i++)
		n += belongs_together(m, &m->p.chosen[i]);
	for (size_t i = 0; n > 1 && i < m->p.n_chosen; i++)
		if (belongs_together(m, &m->p.chosen[i])) {
			m->p.chosen[i].rule = SNAPSHOT_TOGETHER;
			m->p.chosen[i].group = NCCL_GROUP;
		}
}

/* --- the text */

static void _printf_(2, 3) put(struct making *m, const char *format, ...)
{
	_cleanup_(freep) char *text = NULL;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	for (const char *s = text; s && (s = strchr(s, '\n')); s++)
		m->line++;
	if (text)
		fputs(text, m->out);
}

/* Fit for a comment: one line, no control characters. */
static void put_escaped(struct making *m, const char *s)
{
	_cleanup_(freep) char *escaped = text_escape(s, strlen(s));

	put(m, "%s", escaped ? escaped : "?");
}

static void put_place(struct making *m, const char *file, unsigned line)
{
	put_escaped(m, file);
	if (line > 0)
		put(m, ":%u", line);
}

static const char *section_of(const struct import_chosen *c)
{
	if (c->group)
		return streq(c->group, PROFILE_TOOLKIT_GROUP) ? "toolkit" : "together " NCCL_GROUP;
	return c->rule == SNAPSHOT_FORCE ? "env.force" : "env";
}

/* Which sections have those that the source sets in this way: "WORD has become [x] and [y]". False:
 * there are none. */
static bool put_sections(struct making *m, const char *word, enum import_state state)
{
	const char *shown[3] = {NULL}; /* more than there are for one state */
	size_t n = 0;

	for (size_t i = 0; i < m->p.n_chosen; i++) {
		const struct import_chosen *c = &m->p.chosen[i];
		const char *section = section_of(c);
		bool known = c->item->state != state;

		for (size_t j = 0; j < n; j++)
			known = known || streq(shown[j], section);
		if (known || n == ARRAY_SIZE(shown))
			continue;
		shown[n++] = section;
	}
	for (size_t i = 0; i < n; i++)
		put(m, "%s%s[%s]", i == 0 ? word : "",
		    i == 0      ? " has become "
		    : i + 1 < n ? ", "
				: " and ",
		    shown[i]);
	return n > 0;
}

/* What the ways to set a variable in a program have become, of those that are in it. */
static void put_python_rules(struct making *m)
{
	bool defaults, forces;

	if (m->p.n_chosen == 0)
		return;
	put(m, "# ");
	defaults = put_sections(m, "setdefault", IMPORT_DEFAULT);
	forces = put_sections(m, defaults ? ", an assignment" : "An assignment", IMPORT_FORCE);
	put(m, "%s\n",
	    forces     ? ": it replaces what a process has."
	    : defaults ? ": what a process has stays."
		       : "What is removed has become [env.unset].");
}

static void put_head(struct making *m)
{
	static const char *const rules[] = {
		[IMPORT_NCCL_CONF] = "A process's own value wins, as with the file.",
		[IMPORT_UNIT] = "A process's own value wins; a job of the unit has none before.",
		[IMPORT_SHELL] = "A process's own value wins, as one that is exported later does.",
		[IMPORT_ENV] = "A process's own value wins.",
	};
	const struct import_item *own = import_find(m->im, "CUDAENV_PROFILE");

	put(m, "# Imported by cudaenvctl from ");
	put_escaped(m, m->options->source);
	put(m, " (%s). Nothing is installed.\n",
	    m->options->process ? "the block it was started with"
				: import_kind_name(m->options->kind));
	put(m,
	    "# Save it as %s.ini in profiles.d, then: cudaenvctl check %s && cudaenvctl use %s\n",
	    m->options->name, m->options->name, m->options->name);
	if (m->options->kind == IMPORT_PYTHON)
		put_python_rules(m);
	else
		put(m, "# %s\n", rules[m->options->kind]);
	if (m->options->process && own) {
		put(m, "# What cudaenv's profile ");
		put_escaped(m, own->value);
		put(m, " set in it is among these.\n");
	}
	put(m, "[profile]\ndescription = imported from ");
	put_escaped(m, m->options->source);
	put(m, "\n");
}

static void put_variable(struct making *m, struct import_chosen *c)
{
	put(m, "# ");
	put_place(m, c->item->file, c->item->line);
	put(m, "\n");
	c->line = m->line;
	put(m, "%s =%s%s\n", c->item->name, c->item->value[0] ? " " : "", c->item->value);
}

static void put_toolkit(struct making *m)
{
	if (!m->p.toolkit_root)
		return;
	put(m, "\n# Of one toolkit:\n");
	for (size_t i = 0; i < m->p.n_chosen; i++) {
		struct import_chosen *c = &m->p.chosen[i];

		if (!c->group || !streq(c->group, PROFILE_TOOLKIT_GROUP))
			continue;
		put(m, "#   %s ", c->item->name);
		put_place(m, c->item->file, c->item->line);
		put(m, "\n");
	}
	put(m,
	    "# [toolkit] sets the others of its variables as well, and PATH where one is not "
	    "root.\n[toolkit]\nroot = %s\n%s",
	    m->p.toolkit_root, m->toolkit_force ? "rule = force\n" : "");
}

static void put_section(struct making *m, const char *section, enum snapshot_rule rule)
{
	bool begun = false;

	for (size_t i = 0; i < m->p.n_chosen; i++) {
		struct import_chosen *c = &m->p.chosen[i];

		if (c->rule != rule || (c->group && streq(c->group, PROFILE_TOOLKIT_GROUP)))
			continue;
		if (!begun && rule == SNAPSHOT_TOGETHER)
			put(m,
			    "\n# All ranks must have these alike: all are set, or, where a "
			    "process has another value of one, none.\n[%s]\n",
			    section);
		else if (!begun)
			put(m, "\n[%s]\n", section);
		begun = true;
		put_variable(m, c);
	}
}

static void put_notes(struct making *m)
{
	size_t written = 0, i;

	if (m->im->n_notes > 0)
		put(m, "\n# Left out:\n");
	for (i = 0; i < m->im->n_notes && written < NOTES_BUDGET; i++) {
		const struct import_note *n = &m->im->notes[i];

		written +=
			4 * (strlen(n->file) + strlen(n->reason)) + (n->name ? strlen(n->name) : 0);
		put(m, "#   ");
		put_place(m, n->file, n->line);
		put(m, ": %s%s", n->name ? n->name : "", n->name ? ": " : "");
		put_escaped(m, n->reason);
		put(m, "\n");
	}
	if (i < m->im->n_notes || m->im->more_notes > 0)
		put(m, "#   and %zu more\n", m->im->n_notes - i + m->im->more_notes);
	if (m->p.n_others > 0)
		put(m, "\n# %zu other variables of the process are none of CUDA's or NCCL's.\n",
		    m->p.n_others);
}

static int write_text(struct making *m)
{
	size_t size = 0;

	free(m->p.text);
	m->p.text = NULL;
	m->out = open_memstream(&m->p.text, &size);
	if (!m->out)
		return -ENOMEM;
	m->line = 1;
	put_head(m);
	put_toolkit(m);
	put_section(m, "together " NCCL_GROUP, SNAPSHOT_TOGETHER);
	put_section(m, "env", SNAPSHOT_DEFAULT);
	put_section(m, "env.force", SNAPSHOT_FORCE);
	put_section(m, "env.unset", SNAPSHOT_UNSET);
	put_notes(m);
	return fclose(m->out) == 0 ? 0 : -ENOMEM;
}

/* --- the proof */

static const struct profile_variable *variable_find(const struct profile *p, const char *name)
{
	for (size_t i = 0; i < p->n_variables; i++)
		if (streq(p->variables[i].name, name))
			return &p->variables[i];
	return NULL;
}

static bool all_equal(const struct making *m, const struct profile *p)
{
	for (size_t i = 0; i < m->p.n_chosen; i++) {
		const struct import_chosen *c = &m->p.chosen[i];
		const struct profile_variable *v = variable_find(p, c->item->name);

		if (!v || v->rule != c->rule || !streq(v->value, c->item->value))
			return false;
	}
	return true;
}

/* Takes the variables out at whose lines P has errors. 1: there were some, 0, negative. */
static int drop_errors(struct making *m, const struct profile *p)
{
	size_t kept = 0, n = m->p.n_chosen;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		const struct import_chosen *c = &m->p.chosen[i];
		const struct finding *error = NULL;

		for (size_t j = 0; j < p->findings.n; j++)
			if (p->findings.items[j].severity == FINDING_ERROR &&
			    p->findings.items[j].line == c->line && c->line > 0)
				error = &p->findings.items[j];
		if (error && r == 0)
			r = import_note_item(m->im, c->item, "%s", error->message);
		if (!error)
			m->p.chosen[kept++] = *c;
	}
	m->p.n_chosen = kept;
	return r < 0 ? r : kept < n;
}

/* 1: the text is good, 0: something was taken out, try again. */
static int prove(struct making *m)
{
	_cleanup_(profile_freep) struct profile *p = NULL;
	int r = profile_parse("imported", "imported", m->p.text, strlen(m->p.text), NULL, &p);

	if (r < 0)
		return r;
	if (p->valid && all_equal(m, p))
		return 1;
	if (m->p.toolkit_root) {
		drop_toolkit(m);
		return 0;
	}
	r = drop_errors(m, p);
	return r < 0 ? r : r > 0 ? 0 : -EIO;
}

int import_profile_make(struct import *im, const struct import_profile_options *options,
			struct import_profile *ret)
{
	struct making m = {.im = im, .options = options};
	int r = choose(&m);

	if (r == 0)
		r = find_toolkit(&m);
	if (r == 0)
		find_together(&m);
	while (r == 0) {
		r = write_text(&m);
		if (r == 0)
			r = prove(&m);
	}
	if (r < 0) {
		import_profile_done(&m.p);
		return r;
	}
	*ret = m.p;
	return 0;
}
