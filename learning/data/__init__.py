"""Client data: samples, their partition among clients, and how they differ between sites."""
