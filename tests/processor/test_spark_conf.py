"""What Spark is told: what must be so, what a user may change, who may reach the driver."""

from __future__ import annotations

import pytest

from processor.settings import ProcessorSettings
from processor.spark.context import configuration

_ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")


@pytest.mark.parametrize("master", ["local[*]", "local[2]"])
def test_a_local_driver_listens_for_itself_only(master: str) -> None:
    found = configuration(ProcessorSettings(spark_master=master))
    assert [found[a] for a in _ADDRESSES] == ["127.0.0.1", "127.0.0.1"]


def test_executors_of_a_cluster_reach_the_driver() -> None:
    found = configuration(ProcessorSettings(spark_master="spark://host:7077"))
    assert not set(_ADDRESSES) & set(found)


def test_a_user_chooses_the_address_but_not_the_attempts() -> None:
    chosen = {"spark.driver.host": "10.0.0.7", "spark.task.maxFailures": "4"}
    settings = ProcessorSettings(spark_master="spark://host:7077", spark_conf=chosen)
    found = configuration(settings)
    assert found["spark.driver.host"] == "10.0.0.7"
    assert found["spark.task.maxFailures"] == "1"
