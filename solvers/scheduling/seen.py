"""Former names of the view of a policy, for plug-ins; see `clusterplan.solvers.scheduling.view`."""

from .view import ForbiddenKnowledgeError, Knowledge
from .view import View as Seen

__all__ = ["ForbiddenKnowledgeError", "Knowledge", "Seen"]
