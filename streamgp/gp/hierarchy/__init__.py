"""The mathematics of the hierarchical model: global, deviation and residual layers on inducing inputs."""
