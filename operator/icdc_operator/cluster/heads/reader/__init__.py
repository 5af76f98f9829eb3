"""The process `icdc-heads`: reads catalogs for the operator, and holds no Kubernetes token itself.

Catalogs are strangers' servers, so every catalog is read by a child process of its own:

    operator                   icdc-heads              child, one per catalog
    --------                   ----------              ----------------------
    connections --socket-->    process  --fork-->      1 confine   confinement, landlock
                                                       2 resolve   addresses, proxies, trust
    wire: Opening, Question ----------------------->   3 read      catalog_reading
          HeadAnswer        <-----------------------   4 answer    child

1. Confine: `confinement` takes away variables, files, memory and processor time; `landlock` is
   the kernel's part of that. It comes first, before a byte of the catalog is read.
2. Resolve: `addresses` checks each name that is looked up and each address that is connected to;
   `proxies` holds requests through a proxy to the same rules; `trust` adds a catalog's authorities.
3. Read: `catalog_reading` opens the catalog by its kind: `rest`, `jdbc`, or `pointers` (Hive,
   Glue, DynamoDB). The catalog's own settings pass `answered_properties`. All kinds stop as soon
   as the newest metadata is named (`named`); `metadata_files` reads a file, `branches` parses it.
4. Answer: `foreign_errors` turns library errors into ours without repeating their text; `child`
   sends one line back. A child that is late, too large or hung is killed by `process`.

Nothing here imports Kubernetes, and nothing outside is allowed to import pyiceberg.
"""
