"""What a restart of the receiver cut: traces of which it had got spans, and whose others never arrived.

Exporters give a batch up after ten seconds, and an agent's root span is in its last batch. So each start
marks the traces that were open when the receiver ended, by a log record beside a span whose parent has not
arrived. What it means is decided when the session is derived: if the parent arrives later, nothing.
"""

from __future__ import annotations

from spangrade.tracer.semconv import RECEIVER_RESTARTED
from spangrade.tracer.span import LogRecord
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

_SCOPE = "spangrade.receiver"


def note_start(store: Store, now_ns: int) -> int:
    """Mark the traces that the end of the last receiver cut; return how many marks. Note the first start.

    All that was received before is to be in the database.
    """
    store.query(statement("receiver_starts"))
    ((newest,),) = store.query("SELECT coalesce(max(seq), 0) FROM spans")
    ((since,),) = store.query("SELECT max(seq) FROM receiver_starts")
    if since is None:
        store.query("INSERT INTO receiver_starts VALUES ($seq, $now)", {"seq": newest, "now": now_ns})
        return 0
    cut = store.query(statement("cut_traces"), {"newest": newest, "since": since, "now": now_ns})
    store.add(
        LogRecord(trace_id, span_id, now_ns, RECEIVER_RESTARTED, scope_name=_SCOPE)
        for trace_id, span_id in cut
    )
    return len(cut)
