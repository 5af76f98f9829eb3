"""Kinds of events that hurt together, in the order in which they do; half of all worlds have."""

Theme = tuple[str | tuple[str, float], ...]
"""Kinds, some with the least of the share from which they take their details."""

_REOPENINGS = ("open the shards again",) * 4
"""Until one of them comes when a delete is applied."""

THEMES: tuple[Theme, ...] = (
    # A run cannot ask for older requests, and one is still under way when it tries again.
    (
        "insert a row",
        ("bulk request: held", 0.7),
        "kill the driver",
        "tasks request: busy for long",
        "take back the last commit",
        *_REOPENINGS,
    ),
    # A task that was cut off goes on when its run was replaced.
    (
        "insert a row",
        ("bulk request: cut", 0.4),
        ("lose the driver's node", 0.5),
        "take back the last commit",
        *_REOPENINGS,
    ),
    # A request comes when its index is gone, and another one may have its name.
    (
        "insert a row",
        ("bulk request: from a lost node", 0.4),
        "delete the index",
        "take back the last commit",
    ),
    (
        "ask for an export",
        "bulk request: lost",
        "lose the driver's node",
        "take back the last commit",
        "ask for an export",
    ),
    ("commit", "commit", "commit", "delete the state document", "commit"),
    # Dead letters are older than the state document, and of higher ordinals.
    (
        "commit",
        "commit what is refused",
        "delete the state document",
        "mend what is refused",
        "commit",
    ),
    ("delete a document of the new index", "ask for an export", "commit"),
    # A driver is lost while it compares, and is asked again before it has answered.
    (
        "ask for a comparison",
        "commit",
        "remove the request's mode",
        "commit",
        "ask for a comparison",
        "kill the driver",
        "commit",
        "ask for a comparison",
    ),
    ("ask for an export", "create the pipeline again", "ask for an export"),
)

ROLLBACK_THEMES: tuple[Theme, ...] = (
    ("ask for an export", "commit", "commit", "ask for a rollback", "commit"),
    # A driver ends at some step of a rollback, or comes back when another run has gone on.
    (
        "ask for an export",
        "commit",
        "ask for a rollback",
        "kill the driver",
        "ask for a rollback",
        "pause the driver",
        "commit",
    ),
    # Back, forward and back again, with an export that is given up half-way.
    (
        "ask for an export",
        "ask for a rollback",
        "ask for an export",
        "ask for a rollback",
        "take back the last commit",
        "ask for a rollback",
    ),
    # Dead letters are of one index, and readers leave it.
    (
        "ask for an export",
        "commit what is refused",
        "ask for a rollback",
        "take back the last commit",
        "commit what is refused",
        "ask for an export",
        "mend what is refused",
        "ask for a rollback",
    ),
    # The batch that is open, and the task that writes it, are of the index that is left.
    (
        "ask for an export",
        "insert a row",
        ("bulk request: held", 0.7),
        "kill the driver, its task goes on",
        "ask for a rollback",
        "take back the last commit",
        "ask for a rollback",
    ),
    # Other hands were at the index that readers shall see again.
    (
        "ask for an export",
        "commit",
        "restore the index in place",
        "ask for a rollback",
        "lose the newest writes",
        "ask for a rollback",
    ),
    ("ask for an export", "commit", "ask for a rollback", "ask for a comparison", "commit"),
    ("ask for an export", "expire snapshots", "commit", "ask for a rollback", "commit"),
    ("ask for an export", "ask for a rollback", "create the pipeline again", "ask for a rollback"),
)
"""As above, with requests for a rollback: in a part of all worlds, after all else was drawn."""
