"""Strategies by name, and a line on the devices that a run will use."""

from electra_tf.errors import InputError

STRATEGIES = ("one_device", "mirrored")


def build_strategy(name, logical_cpus=0):
    """Builds the `tf.distribute` strategy that a flag names.

    Args:
        name: one of STRATEGIES
        logical_cpus: split the CPU into so many devices, to try several replicas on a
            machine without accelerators; 0 leaves it whole
    """
    import tensorflow as tf

    if name not in STRATEGIES:
        raise InputError(
            f"--strategy must be one of {', '.join(STRATEGIES)}, got {name!r}"
        )
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    if logical_cpus:
        cpu = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration()] * logical_cpus
        tf.config.set_logical_device_configuration(cpu, parts)
    if name == "one_device":
        return tf.distribute.get_strategy()
    gpus = tf.config.list_logical_devices("GPU")
    devices = gpus or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def describe_devices(strategy):
    """One line: the replicas and the devices that TensorFlow sees."""
    import tensorflow as tf

    kinds = {}
    for device in tf.config.list_logical_devices():
        kinds[device.device_type] = kinds.get(device.device_type, 0) + 1
    seen = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    replicas = strategy.num_replicas_in_sync
    return f"devices: {seen}; {replicas} replica{'s' * (replicas > 1)}"
