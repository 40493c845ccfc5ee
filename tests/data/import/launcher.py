#!/usr/bin/env python3
"""Starts one server per GPU pair; the tuning is for the children as well."""
import argparse
import os
import subprocess


def tune(args):
    env = os.environ
    env.setdefault("NCCL_ALGO", "Ring")
    env.setdefault("NCCL_PROTO", args.proto)
    if args.ll128:
        env["NCCL_LL128_NTHREADS"] = "640"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--proto", default="LL")
    p.add_argument("--ll128", action="store_true")
    args = p.parse_args()
    tune(args)
    child = os.environ.copy()
    child["CUDA_VISIBLE_DEVICES"] = "0,1"
    child["NCCL_DEBUG"] = "WARN"
    subprocess.run(["python3", "-m", "sglang.launch_server"], env=child, check=True)


os.environ["NCCL_CUMEM_ENABLE"] = os.environ.get("NCCL_CUMEM_ENABLE", "0")
os.environ["NCCL_NVLS_ENABLE"] = os.environ.get("USE_NVLS") or "0"

if __name__ == "__main__":
    main()
