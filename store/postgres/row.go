package postgres

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
)

// forever is the number after all changes.
const forever = math.MaxInt64

// versionArgs are the columns that a version sets.
func versionArgs(sealed session.Session) (pgx.NamedArgs, error) {
	info := sealed.Info()
	header, err := encodeHeader(info)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(header)
	from, to := shown(sealed.Spans(), sealed.Window(), false)
	args := pgx.NamedArgs{
		"of_version": info.Version, "seq": info.Seq, "running": sealed.Running(),
		"header": header, "header_sum": sum[:], "shown_from": from, "shown_to": to,
		"status": column(string(info.Status)), "origin": column(string(info.Origin)), "name": column(info.Name),
		"updated_at": info.UpdatedAt, "updated_slot": slot(info.UpdatedAt), "expires_at": info.ExpiresAt,
	}
	addStatuses(args, info)
	return args, nil
}

// addStatuses adds the columns that copy a task's or a workflow's row.
func addStatuses(args pgx.NamedArgs, i session.Info) {
	args["task_status"], args["flow_status"] = (*string)(nil), (*string)(nil)
	if i.Task != nil {
		args["task_status"] = column(i.Task.Status)
	}
	if i.Workflow != nil {
		args["flow_status"] = column(i.Workflow.Status)
	}
}

// slot is the quarter of a second that a time lies in, in the same way as the
// migration that added the column reckons it.
func slot(t time.Time) int64 { return t.UnixMicro() >> 18 }

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

// decodeHeader is a kept header with the open tail's rows, if it has any, in
// the place of its own.
func decodeHeader(id string, raw, tail []byte) (session.Info, error) {
	i, err := session.DecodeHeader(raw)
	if err == nil && tail != nil {
		var rows tailRows
		err = json.Unmarshal(tail, &rows)
		i.Task, i.Workflow = rows.Task, rows.Workflow
	}
	return i, unreadable(id, "header", err)
}

// tailRows are the parts of a header that are those of the open tail.
type tailRows struct {
	Task     *session.TaskRow     `json:"task"`
	Workflow *session.WorkflowRow `json:"workflow"`
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
