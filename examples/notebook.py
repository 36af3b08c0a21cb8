"""The cells of a notebook: a Muster for the session, a topic, and a look at it.

usage: run the cells between the lines with ``# %%`` in Jupyter, or the file as it is: python -m examples.notebook
"""

# %%
from __future__ import annotations

import pandas as pd
import ray

import muster
import muster.data

kafka = muster.run()  # ends with the kernel, whatever ends that; it needs no Ray of yours
print(kafka)

# %%
delays = pd.DataFrame({"key": ["UA1", "AA7", "UA1", "DL3"], "value": ["12", "3", "40", "0"]})
muster.data.write(ray.data.from_pandas(delays), kafka.topic("delays", partitions=2), cluster=kafka)

# %%
read = muster.data.read("delays", group="notebook", cluster=kafka, columns=["key", "value"]).to_pandas()
read = read.assign(key=read["key"].map(bytes.decode), value=read["value"].astype(int))
print(read.groupby("key")["value"].agg(["count", "mean"]))

# %%
kafka.stop()
