"""The operator's adapter on a fake or real API server, with spark-operator and pods played."""
