#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual pages say what the programs say of themselves: verbs and options of every --help, keys of cudaenvd.conf,
# sections and names of a profile, functions of cudaenv.h, in both directions; the examples pass the checks they speak of.
set -eu
: "${BUILDDIR:?}" "${SRCDIR:?}"
man=$SRCDIR/man
ctl=$BUILDDIR/cudaenvctl
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C HOME="$dir" XDG_CONFIG_HOME="$dir/config" XDG_STATE_HOME="$dir/state" XDG_RUNTIME_DIR="$dir"
unset CUDAENV_RUNTIME_DIR
mkdir -p "$dir/config/cudaenv/profiles.d"
failed=0

fail() {
	echo "$1" >&2
	failed=1
}

# The words of a page without fonts; requests that are no fonts stay.
plain() {
	sed -E -e '/^\.\\"/d' -e 's/\\f[BIRP]//g' -e 's/\\-/-/g' -e 's/\\\(rs|\\e/\\/g' -e 's/\\&//g' \
		-e 's/^\.(B|I|BR|BI|RB|RI|IR|IB) //' -e '/^[^#]/s/"//g' "$man/$1"
}

# section PAGE NAME
section() {
	plain "$1" | awk -v name="$2" '/^\.SH/ { on = $0 == ".SH " name; next } on'
}

# Tags of .TP on stdin; with an argument the paragraphs whose tag begins with it.
tags() {
	awk 'last == ".TP" { print } { last = $0 }' | tr -s ' '
}
paragraph() {
	awk -v tag="$1" '
		$0 == ".TP" { getline; split($0, word, /[ ,=]+/); on = word[1] == tag || word[2] == tag }
		on { print }'
}

example() {
	sed -n '/^\.SH EXAMPLE/,/^\.EE/p' "$man/$1" | sed -e '1,2d' -e '/^\.EE/d' -e 's/\\-/-/g' -e 's/\\e/\\/g'
}

words() {
	tr -c 'A-Za-z0-9_.*-' '\n' | sed 's/\.$//'
}
options() {
	tr -c 'A-Za-z0-9_/*-' '\n' | grep -E '^(--[a-z][a-z-]+|-[a-z])$' | sort -u || true
}

# same WHAT A B: two sorted lists
same() {
	printf '%s\n' "$2" >"$dir/a"
	printf '%s\n' "$3" >"$dir/b"
	diff "$dir/a" "$dir/b" >"$dir/diff" || fail "$1 (< program, > page):
$(cat "$dir/diff")"
}

# within WHAT A B: every line of A stands in B
within() {
	printf '%s\n' "$2" | grep . >"$dir/a" || return 0
	printf '%s\n' "$3" | sort -u >"$dir/b"
	missing=$(sort -u "$dir/a" | comm -23 - "$dir/b")
	[ -z "$missing" ] || fail "$1: $(echo "$missing" | tr '\n' ' ')"
}

check_verbs() {
	verbs=$("$ctl" --help | awk '/^Verbs:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }')
	common=$({ "$ctl" --help; echo --dry-run --reason; } | options)
	known=$common
	same "verbs of cudaenvctl.1" "$(echo "$verbs" | sort)" \
		"$(section cudaenvctl.1 COMMANDS | tags | cut -d' ' -f1 | sort)"
	for verb in $verbs; do
		help=$("$ctl" "$verb" --help | options)
		text=$(section cudaenvctl.1 COMMANDS | paragraph "$verb")
		own=$(printf '%s\n' "$help" "$common" "$common" | sort | uniq -u)
		within "cudaenvctl.1: options of $verb are missing" "$own" "$(echo "$text" | options)"
		within "cudaenvctl.1: $verb has no such options" "$(echo "$text" | options)" "$help"
		same "cudaenvctl.1: arguments of $verb" \
			"$("$ctl" "$verb" --help | sed -n 's/^Usage: cudaenvctl //p' | sed 's/ \[OPTION\.\.\.\]//')" \
			"$(echo "$text" | head -1 | tr -s ' ' | sed -E 's/ \[--?[a-z][^]]*\]//g')"
		known=$(printf '%s\n' "$known" "$help" | sort -u)
		case $help in *--dry-run*) changing="${changing:-} $verb" ;; esac
		case $help in *--reason*) reasoned="${reasoned:-} $verb" ;; esac
	done
	same "verbs with --dry-run in cudaenvctl.1" "$(echo "$changing" | tr -s ' ' '\n' | grep . | sort)" \
		"$(section cudaenvctl.1 OPTIONS | paragraph --dry-run | words | grep -Fx "$verbs" | sort)"
	same "verbs with --reason in cudaenvctl.1" "$(echo "$reasoned" | tr -s ' ' '\n' | grep . | sort)" \
		"$(section cudaenvctl.1 OPTIONS | paragraph --reason | sed -n '/^Of/,$p' | words | grep -Fx "$verbs" | sort)"
	same "options of cudaenvctl.1" "$known" "$(plain cudaenvctl.1 | options)"
	same "common options of cudaenvctl.1" "$common" "$(section cudaenvctl.1 OPTIONS | tags | options)"
}

# Every --help ends with examples; the page has them all, and no other.
check_examples() {
	for verb in $verbs; do
		"$ctl" "$verb" --help | sed -n '/^Examples:/,$s/^  //p' >"$dir/examples.$verb"
		[ -s "$dir/examples.$verb" ] || fail "cudaenvctl $verb --help has no example"
		wrong=$(grep -v "cudaenvctl $verb" "$dir/examples.$verb" || true)
		[ -z "$wrong" ] || fail "cudaenvctl $verb --help: $wrong is no example of it"
	done
	same "examples of cudaenvctl.1" "$(cat "$dir"/examples.* | sort)" "$(example cudaenvctl.1 | sort)"
}

# The columns of tables, which have no header in a pipe: NAME, NAME, NAME in the order of the code.
check_columns() {
	code=$(cat "$SRCDIR"/client/ctl/*.c | tr -s '\n\t ' ' ' |
		grep -oE '\{ ?("[A-Z][A-Z a-z-]*", ?){3,}(NULL ?)?\}|\{("[A-Z]+", ?){2,}"[A-Z]+"\}' |
		sed -E 's/^\{ ?"//; s/", ?"/, /g; s/"[^"]*$//' | sort -u)
	[ "$(echo "$code" | wc -l)" -gt 10 ] || fail "no tables in client/ctl"
	same "columns in cudaenvctl.1" "$code" "$(section cudaenvctl.1 COMMANDS | tr '\n' ' ' |
		grep -oE '[A-Z]{2,}(, [A-Z]{2,}( [A-Z]{2,})*( --[a-z]+)?){2,}' | sort -u)"
}

check_daemons() {
	for program in cudaenvd daemon/broker/cudaenv-broker; do
		page=${program##*/}.8
		help=$("$BUILDDIR/$program" --help | options)
		same "options of $page" "$help" "$(plain "$page" | options)"
		same "option tags of $page" "$help" "$(section "$page" OPTIONS | tags | options)"
		known=$(printf '%s\n' "$known" "$help" | sort -u)
	done
}

check_mentions() {
	for page in "$man"/*.[1-9]; do
		page=${page##*/}
		within "$page: no program has these options" "$(plain "$page" | options)" "$known"
		within "$page: no such verbs" \
			"$(plain "$page" | grep -oE 'cudaenvctl [a-z]+' | cut -d' ' -f2)" "$verbs"
	done
}

check_config() {
	same "keys of cudaenvd.conf.5" "$("$BUILDDIR/cudaenvd" --print-config | awk '
		/^#?\[/ { gsub(/[][#]/, ""); section = $1 }
		/^#[a-z_]+ = / { sub(/^#/, ""); print section, section == "cudaenvd" ? $0 : $1 }' | sort)" \
		"$(plain cudaenvd.conf.5 | awk '
		/^\[/ { gsub(/[][]/, ""); section = $1 }
		/^\.SH (EXAMPLE|SYNTAX)/ { section = "" }
		last == ".TP" && section != "" { gsub(/ +/, " "); print section, $0 }
		{ last = $0 }' | sort)"
	example cudaenvd.conf.5 >"$dir/config/cudaenv/cudaenvd.conf"
	[ -s "$dir/config/cudaenv/cudaenvd.conf" ] || fail "cudaenvd.conf.5 has no example"
	"$BUILDDIR/cudaenvd" --user --check-config || fail "the example of cudaenvd.conf.5 is refused"
	rm "$dir/config/cudaenv/cudaenvd.conf"
}

# keys SECTION: what check says is known in it, "" for the sections
keys() {
	printf '[%s]\nno.such = 1\n' "$1" | "$ctl" --user check - | sed -n 's/^  fix: known are: //p' |
		sed 's/, /\n/g' | sort
}

check_profile() {
	sections=$(keys nonsense)
	[ "$(echo "$sections" | wc -l)" -gt 5 ] || fail "check does not say which sections there are"
	same "sections of cudaenv.profile.5" "$(echo "$sections" | sed 's/^together .*/together/')" \
		"$(section cudaenv.profile.5 SECTIONS | tags | grep -oE '\[[a-z.]+' | tr -d '[' | sort)"
	for name in profile toolkit match require; do
		[ -n "$(keys $name)" ] || fail "check does not say what [$name] knows"
		within "cudaenv.profile.5: keys of [$name] are missing" "$(keys $name)" \
			"$(section cudaenv.profile.5 SECTIONS | paragraph "[$name]" | words)"
	done
	echo '[env]' >"$dir/config/cudaenv/profiles.d/base.ini"
	example cudaenv.profile.5 >"$dir/config/cudaenv/profiles.d/example.ini"
	[ -s "$dir/config/cudaenv/profiles.d/example.ini" ] || fail "cudaenv.profile.5 has no example"
	"$ctl" --user check example >"$dir/out" || fail "the example of cudaenv.profile.5 is refused: $(cat "$dir/out")"
	check_names
}

# What the page calls refused is refused, and what the code refuses stands in the page.
check_names() {
	section cudaenv.profile.5 'REFUSED NAMES' >"$dir/refused"
	{
		words <"$dir/refused" | grep -Ex '[A-Z_][A-Z0-9_*]*' | grep -Fvx "$(paragraph secrets <"$dir/refused" | words)"
		paragraph secrets <"$dir/refused" | words | grep -Ex '[A-Z_]+' | sed 's/^/A/'
	} | sort -u | tr '*' 'X' >"$dir/names"
	{ echo '[env]' && sed 's/$/ = 1/' "$dir/names"; } | "$ctl" --user check - >"$dir/out" || true
	taken=$(sed -n 's/^<stdin>:\([0-9]*\):.* error: .*/\1/p' "$dir/out" | sort -u | wc -l)
	[ "$(wc -l <"$dir/names")" -gt 50 ] || fail "cudaenv.profile.5 has no refused names"
	[ "$taken" = "$(wc -l <"$dir/names")" ] ||
		fail "cudaenv.profile.5: of $(wc -l <"$dir/names") names $taken are refused"
	for table in profile_name_is_secret profile_name_is_reserved profile_name_is_search_path snapshot_name_late; do
		names=$(sed -n "/^bool $table(/,/^}/p" "$SRCDIR/common/profile-names.c" "$SRCDIR/common/snapshot.c" |
			grep -oE '"[A-Z_][A-Z0-9_*]*"' | tr -d '"')
		[ -n "$names" ] || fail "no names of $table()"
		within "cudaenv.profile.5: names are missing ($table)" "$names" "$(plain cudaenv.profile.5 | words)"
	done
}

prototypes() {
	tr -s ' \t\n' ' ' | sed 's/; */;\n/g' | sort
}

check_library() {
	header=$SRCDIR/client/cudaenv.h
	same "prototypes of libcudaenv.3" \
		"$(awk '/^CUDAENV_PUBLIC/ { on = 1 } on { print } /;$/ { on = 0 }' "$header" | sed 's/^CUDAENV_PUBLIC //' | prototypes)" \
		"$(section libcudaenv.3 SYNOPSIS | awk '/^\.EE/ { exit } NR > 3' | prototypes)"
	same "functions of libcudaenv.3" \
		"$(sed -n 's/^CUDAENV_PUBLIC .*[ *]\(cudaenv_[a-z_]*\)(.*/\1/p' "$header" | sort)" \
		"$(sed -n 's/^\.SS //p' "$man/libcudaenv.3" | sort)"
	same "enumerators of libcudaenv.3" \
		"$(sed -n 's/^[[:blank:]]*\(CUDAENV_[A-Z_]*\) =.*/\1/p' "$header" | sort)" \
		"$(section libcudaenv.3 DESCRIPTION | tags | sort)"
	example libcudaenv.3 >"$dir/example.c"
	grep -q main "$dir/example.c" || fail "libcudaenv.3 has no example"
	${CC:-cc} -Wall -Wextra -Werror -I"$SRCDIR/client" -fsyntax-only "$dir/example.c" ||
		fail "the example of libcudaenv.3 does not compile"
}

check_format() {
	command -v groff >/dev/null || {
		echo "no groff here: how the pages are formatted was not looked at"
		return 0
	}
	for page in "$man"/*.[1-9]; do
		groff -ww -man -Tutf8 -z "$page" >"$dir/groff" 2>&1 || true
		[ ! -s "$dir/groff" ] || fail "$(cat "$dir/groff")"
	done
}

check_verbs
check_examples
check_columns
check_daemons
check_mentions
check_config
check_profile
check_library
check_format
exit $failed
