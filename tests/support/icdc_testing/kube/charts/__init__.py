"""The charts: as files, rendered by Helm, installed, and watched by GitOps engines."""
