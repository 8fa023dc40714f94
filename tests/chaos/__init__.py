"""A whole network as processes over a real broker, and everything that can happen to it (``make chaos``).

Agents, cloud and scorer are killed with SIGKILL at random, each as often as told; the broker is stopped and started
again, and frozen once as a network that carries nothing. In the end each model holds exactly the observations sent and
is equal to the bit to that of an undisturbed run in one process, every question has exactly one committed forecast, one
conclusion, and one answer of each agent.
"""
