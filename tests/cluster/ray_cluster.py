"""A Ray cluster on this machine: a head without processors and two nodes of two.

It is a program, because Ray reads its environment once in a process. It prints the address and the processes of the
raylets as JSON. It then ends a node, as a power failure does, for each line on stdin, and the cluster at the end of it.
"""

import json
import sys

from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=2) for _ in range(2)]
print(json.dumps([cluster.address, *(node.all_processes["raylet"][0].process.pid for node in nodes)]), flush=True)
for _ in sys.stdin:
    cluster.remove_node(nodes.pop(), allow_graceful=False)
cluster.shutdown()
