"""The bundle of `icdc report`: what is collected, what is taken out of it, how it is packed."""
