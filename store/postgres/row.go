package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// forever is the number after all changes.
const forever = math.MaxInt64

// versionArgs returns the columns that every version sets.
func versionArgs(sealed session.Session, info session.Info) pgx.NamedArgs {
	args := make(pgx.NamedArgs, 32) // as many as a save has
	args["of_version"], args["seq"], args["messages"] = info.Version, info.Seq, int64(info.MessageCount)
	args["updated_at"], args["running"] = info.UpdatedAt, sealed.Running()
	args["due"] = dueOf(sealed)
	messages := int64(info.MessageCount)
	args["row_sum"] = rowSum(info.Tenant, info.ID, info.Version, info.Seq, &messages, info.UpdatedAt)
	return args
}

// addWindow adds where the window's messages are.
func addWindow(args pgx.NamedArgs, sealed session.Session) {
	args["shown_from"], args["shown_to"] = shown(session.Spans(sealed), sealed.Window(), false)
}

// addHeader adds the header and its copies.
func addHeader(args pgx.NamedArgs, info session.Info) error {
	header, err := store.EncodeHeader(info)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(header)
	args["header"], args["header_sum"], args["pending"] = header, sum[:], info.Pending > 0
	args["status"], args["origin"], args["name"] = column(string(info.Status)), column(string(info.Origin)), column(info.Name)
	args["updated_slot"], args["expires_at"] = slot(info.UpdatedAt), info.ExpiresAt
	addStatuses(args, info)
	return nil
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

// onlyAdds reports whether a version changes only the columns that every save
// writes: neither the start of its window, nor its place in listings, nor the
// rest of its header. It decides by the kinds of change; a session with an open
// tail always writes everything.
func onlyAdds(next session.Session, before, info session.Info, pending []session.Record) bool {
	if session.Base(next) != before.Seq || slot(before.UpdatedAt) != slot(info.UpdatedAt) {
		return false
	}
	for _, r := range pending {
		switch r.Change.(type) {
		case session.MessageAdded, session.InboxTaken,
			session.MetadataWritten, session.MetadataRemoved, session.VariableStored, session.VariableDeleted,
			session.SystemPromptChanged, session.ModelChanged, session.ResponseFormatChanged,
			session.ExecutionStarted, session.ExecutionContinued, session.ExecutionFinished,
			session.InferenceAnswered, session.InferenceFailed, session.ToolStarted, session.ToolFinished, session.StepFinished:
		default:
			return false
		}
	}
	return true
}

// slot is the quarter of a second that a time lies in. The migration that added
// the column computes it in the same way.
func slot(t time.Time) int64 { return t.UnixMicro() >> 18 }

// column is a text as a column holds it: NULL where it is empty or PostgreSQL
// cannot store it. Columns only filter; the header decides.
func column(text string) *string {
	if text == "" || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil
	}
	return &text
}

// headerRow is a stored header. What changes more often than the rest is in
// columns of its own.
type headerRow struct {
	Tenant    string
	ID        string
	Header    []byte
	HeaderSum []byte
	TailRows  []byte // nil: the open tail has none of its own
	Version   int64
	Seq       int64
	Messages  *int64 // nil: as the header says
	UpdatedAt time.Time
	Sum       int64 // of the row
}

const headerColumns = `s.tenant, s.id, s.header, s.header_sum, s.tail_rows, s.version, s.seq, s.messages, s.updated_at, s.row_sum`

func (h *headerRow) columns() []any {
	return []any{&h.Tenant, &h.ID, &h.Header, &h.HeaderSum, &h.TailRows, &h.Version, &h.Seq, &h.Messages, &h.UpdatedAt, &h.Sum}
}

// check returns why a header that can be decoded is not the one that was
// written.
func (h *headerRow) check() error {
	if sum := sha256.Sum256(h.Header); !bytes.Equal(sum[:], h.HeaderSum) {
		return errOtherSum
	}
	if rowSum(h.Tenant, h.ID, h.Version, h.Seq, h.Messages, h.UpdatedAt) != h.Sum {
		return rowDamage(h.ID)
	}
	return nil
}

// info is the whole header, with the rows of the open tail.
func (h *headerRow) info() (session.Info, error) {
	i, err := session.DecodeHeader(h.Header)
	if err == nil {
		err = h.check()
	}
	if err != nil {
		return session.Info{}, store.Unreadable(h.ID, "header", err)
	}
	i.Version, i.Seq, i.UpdatedAt = h.Version, h.Seq, session.Instant(h.UpdatedAt)
	if h.Messages != nil {
		i.MessageCount = int(*h.Messages)
	}
	if h.TailRows != nil {
		rows, err := decodeTailRows(h.TailRows, h.ID)
		if err != nil {
			return session.Info{}, store.Unreadable(h.ID, "header", err)
		}
		i.Task, i.Workflow = rows.Task, rows.Workflow
	}
	return i, nil
}

// tailRows are the parts of a header that come from the open tail.
type tailRows struct {
	Task     *session.TaskRow     `json:"task"`
	Workflow *session.WorkflowRow `json:"workflow"`
}

func (r tailRows) encode(id string) ([]byte, error) {
	raw, err := json.Marshal(r)
	return withSum(raw, id), err
}

func decodeTailRows(stored []byte, id string) (rows tailRows, err error) {
	raw, err := checked(stored, id)
	if err == nil {
		err = json.Unmarshal(raw, &rows)
	}
	return rows, err
}

// decodeHead decodes a snapshot: a version without its messages. It returns the
// sum of the last record that the version holds, too.
func decodeHead(id string, stored []byte) (session.Session, store.Sum, error) {
	raw, last, sumErr := checkedHead(stored)
	s, err := session.DecodeHead(raw, nil)
	switch {
	case errors.Is(err, session.ErrNewerFormat): // a newer program may count in another way
	case sumErr != nil:
		err = sumErr
	case err == nil && s.ID() != id:
		err = &session.InvalidError{Field: "header.sessionId", Reason: "is that of another session"}
	}
	return s, last, store.Unreadable(id, "head", err)
}

// shown returns the first and last changes of the spans that hold the messages
// of a window or of the whole transcript.
func shown(transcript []session.Span, w session.Window, whole bool) (from, to []int64) {
	from, to = []int64{}, []int64{} // NULL is not allowed
	for _, span := range store.ShownSpans(transcript, w, whole) {
		if span.To == 0 {
			span.To = forever
		}
		from, to = append(from, span.From), append(to, span.To)
	}
	return from, to
}
