"""Client data: samples, how they are partitioned, and how they differ between sites."""
