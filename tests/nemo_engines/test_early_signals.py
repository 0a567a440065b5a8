"""What is known of signals before the contract is imported."""

import signal

from nemo_engines import early_signals
from nemo_trainer.contract import JobContext, names


def test_the_signal_that_announces_the_end_is_the_one_of_the_contract() -> None:
    environ = {early_signals.END_SIGNAL: early_signals.ANNOUNCES}
    assert early_signals.END_SIGNAL == names.END_SIGNAL
    assert JobContext.from_environ(environ).end_signal is signal.SIGUSR1
