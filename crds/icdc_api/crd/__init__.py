"""The CRD made from the models, its rules in CEL, and errors of a file explained."""
