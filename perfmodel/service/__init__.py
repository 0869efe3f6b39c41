"""perfmodel as a service for agents: the Model Context Protocol over standard input and HTTP on this machine."""
