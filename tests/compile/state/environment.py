"""What lies outside the program: the environment, threads, the clock and files."""

from __future__ import annotations

import contextvars
import io
import json
import os
import tempfile
import threading

from tests.compile.state.common import linear, program, row


@program("environment")
def environment_variables(torch, wrap):
    name = "STATE_PROGRAMS_SCALE"
    f = wrap(lambda x: x * float(os.environ.get(name, "1")) + (name in os.environ))
    os.environ.pop(name, None)
    out = [f(row(torch)) for _ in range(3)]
    try:
        for value in ("2", "2", "3.5"):
            os.environ[name] = value
            out.append(f(row(torch)))
    finally:
        os.environ.pop(name, None)
    return out + [f(row(torch))]


@program("environment")
def context_variables(torch, wrap):
    scale = contextvars.ContextVar("scale", default=1.0)
    f = wrap(lambda x: x * scale.get())
    out = [f(row(torch)) for _ in range(3)]
    token = scale.set(2.0)
    out.append(f(row(torch)))
    context = contextvars.copy_context()
    scale.set(5.0)
    out += [context.run(f, row(torch)), f(row(torch))]
    scale.reset(token)
    return out + [f(row(torch))]


@program("environment")
def thread_local_values(torch, wrap):
    local, out = threading.local(), []
    local.scale = 1.0
    f = wrap(lambda x: x * getattr(local, "scale", -1.0))

    def elsewhere(scale):
        out.append(f(row(torch)))
        local.scale = scale
        out.append(f(row(torch)))

    for i in range(4):
        out.append(f(row(torch)))
        thread = threading.Thread(target=elsewhere, args=(10.0 + i,))
        thread.start()
        thread.join()
        local.scale += 1
    return out


@program("environment")
def events_and_locks(torch, wrap):
    stop, lock = threading.Event(), threading.Lock()

    def f(x):
        with lock:
            busy = lock.locked()
        return (x if stop.is_set() else -x) + busy, lock.locked()

    f, out = wrap(f), []
    for i in range(8):
        if i in (3, 6):
            stop.set()
        if i == 5:
            stop.clear()
        out.append(f(row(torch)))
    return out


@program("environment")
def clock_that_ticks(torch, wrap):
    class Clock:
        now = 0.0

        def time(self):
            self.now += 0.25
            return self.now

    clock, spent = Clock(), []

    def f(x):
        start = clock.time()
        y = x * 2
        spent.append(clock.time() - start)
        return y + start

    f = wrap(f)
    out = [f(row(torch)) for _ in range(6)]
    clock.now = 100.0
    return out, f(row(torch)), spent


@program("environment")
def files_read(torch, wrap):
    def f(x, path):
        with open(path) as file:
            return x * json.load(file)["scale"]

    f, out = wrap(f), []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        for scale in (1.0, 1.0, 1.0, 2.0, 2.0, 7.5):
            with open(path, "w") as file:
                json.dump({"scale": scale}, file)
            out.append(f(row(torch), path))
        os.remove(path)
        try:
            f(row(torch), path)
        except FileNotFoundError:
            out.append("gone")
    return out


@program("environment")
def files_appended(torch, wrap):
    def f(x, path):
        with open(path, "a") as file:
            file.write(f"{x.sum().item():.1f}\n")
        return x + os.path.getsize(path)

    f = wrap(f)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log.txt")
        out = [f(row(torch, start=float(i % 3)), path) for i in range(7)]
        with open(path) as file:
            return out, file.read().splitlines()


@program("environment")
def checkpoint_saved_and_loaded_within(torch, wrap):
    net, buffer = linear(torch, 4, 1), io.BytesIO()

    def f(x, save):
        if save:
            buffer.seek(0)
            torch.save(net.state_dict(), buffer)
        else:
            buffer.seek(0)
            net.load_state_dict(torch.load(buffer))
        return net(x).detach()

    f, out = wrap(f), []
    for save in (True, False, True, False, False, True, False):
        out.append(f(row(torch), save))
        with torch.no_grad():
            net.weight.add_(1.0)
    return out
