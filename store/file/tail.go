package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/session"
)

// tail is an open tail as it was read.
type tail struct {
	records []session.Record // what is in force
	good    int64            // bytes of whole lines in force
	size    int64            // bytes of the file
	last    int64            // number of the last change, in the tail or before it
}

// appended is one line of a tail. It names the version it continues, so that a
// tail which a later version left behind is recognised.
type appended struct {
	AgentID string           `json:"agentId"`
	Version int64            `json:"version"`
	Records []session.Record `json:"records"`
}

const lineKey = "append"

// line encodes one append.
func (a appended) line() ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(a); err != nil {
		return nil, err
	}
	return sealLine(lineKey, bytes.TrimSuffix(body.Bytes(), []byte("\n"))), nil
}

// torn reports whether a crash can have left this last line, before it was
// acknowledged: without its end, or with blocks that were never written and
// read as zeros. One zero inside a line is a flipped bit, and so is another byte
// where a whole line ends.
func torn(line []byte, ended bool) bool {
	if ended {
		return len(line) > 0 && line[0] == 0 || bytes.Count(line, []byte{0}) > 1
	}
	last := len(line) - 1
	_, whole := openLine(lineKey, line[:last])
	return !whole || line[last] == 0
}

// badLine is a damaged line that no crash explains.
type badLine struct{ reason string }

func (e *badLine) Error() string { return e.reason }

// readTail reads the part of a tail that continues a document, from where t ends.
// A line is bad only if it is read twice: a reader without the lock can meet a
// torn line while a writer removes it.
func (p place) readTail(h head, t tail) (tail, error) {
	var before []byte
	for {
		data, err := readFrom(p.tail(), t.good)
		if err != nil {
			return tail{}, p.unreadable(p.tail(), err)
		}
		read, err := t.parse(h, data)
		var bad *badLine
		if !errors.As(err, &bad) {
			return read, err
		}
		if before != nil && bytes.Equal(before, data) {
			return tail{}, corruptFile(p, p.tail(), "%s", bad.reason)
		}
		before = data
	}
}

// readFrom reads a file from an offset; a missing one is empty.
func readFrom(path string, offset int64) ([]byte, error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, offset, 1<<62))
	return data, errors.Join(err, f.Close())
}

// parse reads more lines. A torn one counts as absent.
func (t tail) parse(h head, data []byte) (tail, error) {
	t.size = t.good + int64(len(data))
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		ended := end >= 0
		if !ended {
			end = len(data)
		}
		line := data[:end]
		data = data[min(end+1, len(data)):]
		raw, ok := openLine(lineKey, line)
		if !ok || !ended {
			if len(data) == 0 && torn(line, ended) {
				return t, nil
			}
			return t, &badLine{fmt.Sprintf("the line at byte %d has a wrong checksum", t.good)}
		}
		a, err := t.decode(raw)
		if err != nil {
			return t, err
		}
		if t.good == 0 && (a.AgentID != h.agent || a.Version < h.version) {
			return t, nil // older than the document
		}
		if a.AgentID != h.agent || a.Version != h.version {
			return t, &badLine{fmt.Sprintf("the line at byte %d continues version %d, the document is version %d", t.good, a.Version, h.version)}
		}
		for _, r := range a.Records {
			if r.Seq != t.last+1 {
				return t, &badLine{fmt.Sprintf("the line at byte %d has change %d after %d", t.good, r.Seq, t.last)}
			}
			t.last = r.Seq
		}
		t.records = append(t.records, a.Records...)
		t.good += int64(end) + 1
	}
	return t, nil
}

func (t tail) decode(raw []byte) (appended, error) {
	var a appended
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(&a)
	var newer *session.NewerFormatError
	if errors.As(err, &newer) {
		return a, newer
	}
	if err != nil {
		return a, &badLine{fmt.Sprintf("the line at byte %d: %v", t.good, err)}
	}
	return a, nil
}

// emptyTail is where reading a document's tail begins.
func emptyTail(h head) tail { return tail{last: h.seq} }

// rows returns a header with the task and workflow rows that the tail has in
// force.
func (t tail) rows(i session.Info) session.Info {
	var discarded []session.Span
	for _, r := range t.records {
		if d, ok := r.Change.(session.TailDiscarded); ok {
			discarded = append(discarded, session.Span{From: d.From, To: d.To})
		}
	}
	for _, r := range t.records {
		if session.Holds(discarded, r.Seq) {
			continue
		}
		switch c := r.Change.(type) {
		case session.TaskRowChanged:
			i.Task = &c.Task
		case session.WorkflowRowChanged:
			i.Workflow = &c.Workflow
		}
	}
	return i
}

// appendLine makes a line durable at the end of a tail's good lines. After an
// error the tail is as it was, unless the error is errOutcomeUnknown.
func (d disk) appendLine(path string, t tail, line []byte) error {
	var f *os.File
	err := d.step("tail open", func() (err error) {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, fileMode)
		return err
	})
	if err != nil {
		return err
	}
	if t.size > t.good {
		if err := d.step("tail truncate", func() error { return f.Truncate(t.good) }); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	err = d.finish("tail", f, func() error { _, err := f.WriteAt(line, t.good); return err })
	if err == nil && t.good == 0 { // the file may be new, or its writer died before this step
		err = d.syncDir("tail", filepath.Dir(path))
	}
	if err != nil {
		return errors.Join(err, d.undoAppend(path, t.good))
	}
	return nil
}

// errOutcomeUnknown marks an append that failed and could not be undone.
var errOutcomeUnknown = errors.New("the append could not be undone")

// undoAppend removes a line that was not written whole.
func (d disk) undoAppend(path string, good int64) error {
	err := d.step("tail truncate", func() error {
		if err := os.Truncate(path, good); err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_WRONLY, fileMode)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
	if err != nil {
		return errors.Join(errOutcomeUnknown, err)
	}
	return nil
}
