/* SPDX-License-Identifier: MIT */
/*
 * cudaenv_start() where the published files are damaged, not to be seen, or not for this process.
 */
#include "tests/unit/start-node.h"

static void act_serve_one(void)
{
	int type = fake_receive();

	if (type == WIRE_FETCH)
		fake_answer(fake_request_id(), one, KEY);
	else if (type == WIRE_GET)
		fake_data(ONE, 20);
}

TEST(snapshots_not_to_be_seen)
{
	if (geteuid() != 0)
		skip("needs root");
	set_up_node();
	check(rename(at("rt/snapshots"), at("elsewhere")) == 0);
	as_user(act_serve_one, one_by_broker);
	answer_digest = one;
	as_user(act_answer, fails); /* no GET served */
	run(act_serve_one, fails);  /* not for root */
	as_user(NULL, fails);
	tear_down_node();
}

TEST(damaged_snapshot)
{
	if (geteuid() != 0)
		skip("needs root");
	set_up_node();
	check(truncate(at("rt/snapshots/%s", one), 30) == 0);
	as_user(act_serve_one, one_by_broker);
	run(act_serve_one, fails);
	as_user(NULL, fails);
	/* Not the publisher's file: not that of which the bytes would be the same. */
	check(chown(at("rt/snapshots/%s", one), STRANGER, 0) == 0);
	as_user(act_serve_one, fails);
	tear_down_node();
}

TEST(scope_user_is_not_for_root)
{
	static const char text[] = HEAD "one\nscope user\ndefault CE_A=one\n";

	if (geteuid() != 0)
		skip("needs root");
	set_up_node();
	check(unlink(at("rt/snapshots/%s", one)) == 0);
	publish(text, one);
	assign("on");
	answer_digest = one;
	as_user(act_answer, one_by_broker);
	as_user(NULL, one_alone);
	run(act_answer, fails);
	run(NULL, fails);
	tear_down_node();
}

TEST(rules_not_to_be_read)
{
	set_up_node();
	answer_digest = one;
	check(unlink(at("rt/assign")) == 0);
	run(act_answer, one_by_broker);
	run(NULL, nothing);
	check(mkfifo(at("rt/assign"), 0444) == 0);
	run(act_answer, one_by_broker);
	run(NULL, fails);
	tear_down_node();
}

TEST_MAIN
