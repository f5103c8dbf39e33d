package postgres

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
)

// snapshotEvery is how many commits lie between two snapshots, so that any
// version is folded from at most so many commits.
const snapshotEvery = 32

// forever is the number after all changes.
const forever = math.MaxInt64

// headArgs are the columns that a version sets.
func headArgs(sealed session.Session) (pgx.NamedArgs, error) {
	head, err := sealed.EncodeHead()
	if err != nil {
		return nil, err
	}
	info := sealed.Info()
	args, err := headerArgs(info)
	if err != nil {
		return nil, err
	}
	from, to := shown(sealed.Spans(), sealed.Window(), false)
	sum := sha256.Sum256(head)
	args["head"], args["head_sum"] = head, sum[:]
	args["shown_from"], args["shown_to"] = from, to
	args["next"], args["seq"], args["running"] = info.Version, info.Seq, sealed.Running()
	return args, nil
}

// headerArgs are the columns that copy a header.
func headerArgs(i session.Info) (pgx.NamedArgs, error) {
	header, err := encodeHeader(i)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(header)
	args := pgx.NamedArgs{
		"header": header, "header_sum": sum[:], "format": session.FormatVersion,
		"kind": column(string(i.Kind)), "status": column(string(i.Status)), "origin": column(string(i.Origin)),
		"name": column(i.Name), "user_id": column(i.UserID), "parent_id": column(i.ParentID), "agent_name": column(i.AgentName),
		"task_status": nil, "flow_status": nil,
		"created_at": i.CreatedAt, "updated_at": i.UpdatedAt, "expires_at": i.ExpiresAt,
	}
	if i.Task != nil {
		args["task_status"] = column(i.Task.Status)
	}
	if i.Workflow != nil {
		args["flow_status"] = column(i.Workflow.Status)
	}
	return args, nil
}

// column is a text as a column holds it: NULL where it is empty or cannot be
// a text of PostgreSQL. Columns only narrow a search; the header decides.
func column(text string) *string {
	if text == "" || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil
	}
	return &text
}

// encodeHeader is a header as it is kept: the beginning of a session's
// document, so that it says which format it is of.
func encodeHeader(i session.Info) ([]byte, error) {
	raw, err := i.MarshalJSON()
	return fmt.Appendf(nil, `{"format":%q,"formatVersion":%d,"header":%s}`, session.Format, session.FormatVersion, raw), err
}

func decodeHeader(id string, raw []byte) (session.Info, error) {
	i, err := session.DecodeHeader(raw)
	return i, unreadable(id, "header", err)
}

// decodeHead is a kept version without its messages.
func decodeHead(id string, raw []byte) (session.Session, error) {
	s, err := session.DecodeHead(raw, nil)
	if err == nil && s.ID() != id {
		err = &session.InvalidError{Field: "header.sessionId", Reason: "is that of another session"}
	}
	return s, unreadable(id, "head", err)
}

// shown are the stretches of the log, first and last change of each, that
// hold the messages of a window or of the whole transcript.
func shown(spans []session.Span, w session.Window, whole bool) (from, to []int64) {
	from, to = []int64{}, []int64{} // NULL is not allowed
	first := w.FromSeq
	if whole {
		first = 0
	}
	keep := slices.Sorted(slices.Values(w.Keep))
	for _, seq := range slices.Compact(keep) {
		if seq < first && session.Holds(spans, seq) {
			from, to = append(from, seq), append(to, seq)
		}
	}
	for _, span := range spans {
		last := span.To
		if last == 0 {
			last = forever
		}
		if begin := max(span.From, first); begin <= last {
			from, to = append(from, begin), append(to, last)
		}
	}
	return from, to
}
