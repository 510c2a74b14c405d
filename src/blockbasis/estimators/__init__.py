"""scikit-learn estimators over compressed kernel matrices."""
