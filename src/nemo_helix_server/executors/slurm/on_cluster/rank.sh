#!/bin/sh
# Runs a command on one node of several, with the number of the node in the variables that trainers read:
# `sh rank.sh -- COMMAND …`, by srun. It runs in images too, which need not have a Python where the host has one.
node=${SLURM_NODEID:-${SLURM_PROCID:-0}}
# torchrun gives its workers ranks of their own; a command that starts no workers is the only one on its node
export NODE_RANK="$node" PET_NODE_RANK="$node" GROUP_RANK="$node"
export RANK="$node" LOCAL_RANK=0 WORLD_SIZE="${NNODES:-1}"
[ "$1" != -- ] || shift
exec "$@"
