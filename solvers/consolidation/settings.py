"""The tuning constants of `exact`, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExactSettings:
    """How `exact` shares its time, and how much it looks at.

    Attributes
    ----------
    share_of_time_left
        For one step, so that some is left for the others.
    many_server_classes
        With more of them, best fit has a plan to begin with before any relaxation is solved.
    bounds_first_s
        With less time than this the plan of best fit comes before any bound.
    share_for_first_bounds
        Of all time, for classes and the first bounds.
    best_fit_patience_s
        Seconds for a plan of best fit, even if the time is over.
    certificate_patience_s
        Seconds that the search for prices of another method's plan may take.
    most_pricing_rounds
        Linear programs of one relaxation.
    reduced_cost_tolerance
        A column must improve on the dual prices by more than this, in steps of the objective.
    relaxation_tolerance
        How far the linear relaxation may be off, in steps of the goal.
    integrality_tolerance
        How far a column's value may be from an integer.
    level_slack
        By which settled goals are loosened, relatively, where they are no multiples of a step.
    kept_shares
        Shares of the columns that are kept while looking near the relaxation.
    most_split_columns
        Exchange columns that split a piece in two.
    most_patterns_enumerated
        Server patterns to look at for a complete model.
    most_shapes_enumerated
        Shapes of which all server patterns are listed, for the search nests a call for each.
    first_patterns_per_class
        Patterns of a job class that are listed from the start; pricing adds more.
    columns_per_class_and_round
        Patterns of one class that are added for the same prices.
    most_listing_steps
        Steps of the search for the first patterns of one job class.
    most_stay_selections
        Ways to keep residents of a server, or a job in place, that are looked at.
    most_table_cells
        Cells of the tables of one server pricing problem.
    most_priced_cells
        Cells of these tables that are filled again for each prices.
    resting_rounds
        Rounds in which a pool that had no new patterns is not priced.
    patterns_per_search
        Patterns of one class that are made for the same prices where there is no table.
    most_first_patterns
        Classes of a pool times shapes up to which each class has a pattern of each shape from the start.
    most_coarse_cells
        Cells of the coarse table of one pool.
    most_coarse_steps
        Cells along its first axis.
    most_pricing_nodes
        Nodes of the branch and bound on the knapsack of one class.
    pricing_patience_s
        Seconds of that branch and bound.
    most_linked_rows
        Classes of servers times shapes that the linear programme by shape tells apart; beyond, it has
        groups of classes, as many as these rows allow.
    fewest_groups
        So many groups of classes it has, though they have more rows.
    dive_share
        Of the patterns that the relaxation leaves fractional, those that are rounded up at once.
    most_dives
        Rounds of columns, a dive and local search, where pools have no table of sums.
    share_of_search
        Of all time, where pools have no table of sums; what is left is for the certificate.
    share_for_columns
        Of the time left, for the relaxation where pools have no table of sums.
    share_for_diving
        Of the time left, for rounding it.
    share_for_local_search
        Of the time left, for improving the plan.
    idle_sweeps
        Sweeps without improvement after which local search ends where named servers can go on.
    most_halves
        Sets of up to three tasks that are listed for the waste budget.
    most_matches
        Pairs of these sets that are compared for one class of servers.
    most_covering_patterns
        Patterns within the waste budget.
    most_named_cells
        Groups of tasks times servers of the compact model.
    most_enumerated
        Ways to place all jobs that are enumerated where that model leaves a gap.
    """

    share_of_time_left: float = 0.5
    many_server_classes: int = 1000
    bounds_first_s: float = 1.5
    share_for_first_bounds: float = 0.75
    best_fit_patience_s: float = 1.2
    certificate_patience_s: float = 10.0
    most_pricing_rounds: int = 500
    reduced_cost_tolerance: float = 1e-7
    relaxation_tolerance: float = 1e-5
    integrality_tolerance: float = 1e-6
    level_slack: float = 1e-12
    kept_shares: tuple[float, ...] = (0.9, 0.7, 0.5)
    most_split_columns: int = 60_000
    most_patterns_enumerated: int = 20_000
    most_shapes_enumerated: int = 200
    first_patterns_per_class: int = 400
    columns_per_class_and_round: int = 4
    most_listing_steps: int = 50_000
    most_stay_selections: int = 5_000
    most_table_cells: int = 150_000_000
    most_priced_cells: int = 2_500_000
    resting_rounds: int = 4
    patterns_per_search: int = 12
    most_first_patterns: int = 20_000
    most_coarse_cells: int = 100_000
    most_coarse_steps: int = 900
    most_pricing_nodes: int = 5_000
    pricing_patience_s: float = 2.0
    most_linked_rows: int = 30_000
    fewest_groups: int = 200
    dive_share: float = 0.05
    most_dives: int = 8
    share_of_search: float = 0.8
    share_for_columns: float = 0.4
    share_for_diving: float = 0.3
    share_for_local_search: float = 0.3
    idle_sweeps: int = 100
    most_halves: int = 4_000_000
    most_matches: int = 20_000_000
    most_covering_patterns: int = 200_000
    most_named_cells: int = 300_000
    most_enumerated: int = 20_000


SETTINGS = ExactSettings()
