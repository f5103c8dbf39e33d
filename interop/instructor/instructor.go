// Package instructor imports the session files of instructor-php.
//
// A file is read completely or not at all. What a session cannot keep is left
// out and reported by its JSON path; credentials are left out, reported, and
// masked wherever else their value occurs.
package instructor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

// Format is the format in the import change of a session.
const Format = "instructor-php.session"

// Detect reports whether data is a session file of instructor-php: it has a
// header, a definition and a state, and no format as Holdfast's own files do.
func Detect(data []byte) bool {
	var keys map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimPrefix(data, []byte(bom)), &keys) != nil {
		return false
	}
	for _, key := range []string{"header", "definition", "state"} {
		if raw := bytes.TrimSpace(keys[key]); len(raw) == 0 || raw[0] != '{' {
			return false
		}
	}
	_, own := keys["format"]
	return !own
}

const bom = "\ufeff"

// Import turns a file into a session at version 0, ready for a store's Create,
// with its status, times and history; the import change has the foreign version.
// A running execution becomes stopped.
//
// An invalid file is a session.CorruptError with the JSON path; invalid options,
// and a file of Holdfast's own format, are a session.InvalidError.
func Import(data []byte, opts foreign.Options) (session.Session, foreign.Report, error) {
	if err := opts.Check(); err != nil {
		return session.Session{}, foreign.Report{}, err
	}
	opts.Now = cmp.Or(opts.Now, time.Now())
	im := &importer{opts: opts, ids: map[string]bool{}, byID: map[string]int{}}
	doc := im.document(im.open(data))
	if im.err != nil {
		return session.Session{}, foreign.Report{}, im.err
	}
	s, err := im.session(doc)
	if err != nil {
		return session.Session{}, foreign.Report{}, err
	}
	return s, im.report.Tidy(), nil
}

// document is the file as Holdfast would have exported it: session.Decode then
// checks it like Holdfast's own files.
type document struct {
	Format        string             `json:"format"`
	FormatVersion int                `json:"formatVersion"`
	Header        session.Info       `json:"header"`
	Definition    session.Definition `json:"definition"`
	State         session.State      `json:"state"`
}

func (im *importer) session(doc document) (session.Session, error) {
	data, err := session.JSON(doc)
	if err != nil {
		return session.Session{}, im.corrupt(err)
	}
	decoded, err := session.Decode(data)
	if err != nil {
		return session.Session{}, im.corrupt(err)
	}
	s, err := decoded.Imported(im.opts.NewID, im.opts.AgentID, im.opts.Tenant, session.SessionImported{Format: Format, Dropped: im.report.Tidy().Dropped}, im.opts.Now)
	if err != nil {
		return session.Session{}, im.corrupt(err)
	}
	return s, nil
}

// importer reads one file. err keeps the first error; what is read after it does
// not matter.
type importer struct {
	opts   foreign.Options
	id     string // of the session, for errors
	report foreign.Report
	err    error

	ids     map[string]bool // of messages
	byID    map[string]int  // index of a message in the transcript
	unnamed []session.ToolCall
}

func (im *importer) fail(path, format string, args ...any) {
	if im.err == nil {
		im.err = &session.CorruptError{ID: im.id, Path: path, Reason: fmt.Sprintf(format, args...)}
	}
}

// corrupt turns an error of package session into a CorruptError.
func (im *importer) corrupt(err error) error {
	var invalid *session.InvalidError
	if errors.As(err, &invalid) {
		return &session.CorruptError{ID: im.id, Path: invalid.Field, Reason: invalid.Reason}
	}
	return &session.CorruptError{ID: im.id, Reason: err.Error()}
}

// open reads the file and checks that its three parts exist.
func (im *importer) open(data []byte) value {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte(bom))))
	dec.UseNumber()
	root := value{im: im}
	if err := dec.Decode(&root.v); err != nil {
		im.fail("", "is not JSON: %v", err)
		return root
	}
	if dec.More() {
		im.fail("", "has more than one JSON value")
		return root
	}
	parts, ok := root.v.(map[string]any)
	if !ok {
		im.fail("", "is %s, not an object", kindOf(root.v))
		return root
	}
	if _, own := parts["format"]; own {
		im.err = &session.InvalidError{Field: "format", Reason: "the file has a format, so it is not of instructor-php; import it as a Holdfast file"}
		return root
	}
	im.id, _ = root.at("header").at("sessionId").v.(string)
	for _, part := range []string{"header", "definition", "state"} {
		if p := root.at(part); p.v == nil {
			im.fail(part, "is missing")
		} else if _, ok := p.v.(map[string]any); !ok {
			im.fail(part, "is %s, not an object", kindOf(p.v))
		}
	}
	var secrets foreign.Secrets
	secrets.Find(root.v)
	root.v = secrets.Mask(root.v)
	secrets.Note(&im.report)
	return root
}

func (im *importer) document(root value) document {
	if im.err != nil {
		return document{}
	}
	root.checkKeys("header", "definition", "state")
	doc := document{Format: session.Format, FormatVersion: session.FormatVersion}
	doc.Definition = im.definition(root.at("definition"), root.at("header").at("agentName"))
	doc.Header = im.header(root.at("header"), doc.Definition)
	doc.State = im.state(root.at("state"), doc.Definition, doc.Header.CreatedAt)
	doc.Header.MessageCount = len(doc.State.Messages)
	doc.Header.Seq = int64(len(doc.State.Messages))
	return doc
}

func (im *importer) header(p value, def session.Definition) session.Info {
	p.checkKeys("sessionId", "parentId", "status", "version", "agentName", "agentLabel", "createdAt", "updatedAt")
	info := session.Info{
		ID: p.at("sessionId").text(), Tenant: session.DefaultTenant, ParentID: p.at("parentId").optional(),
		Origin: session.OriginImport, Kind: session.KindChat, Status: oneOf(p.at("status"), session.Statuses()...), Version: p.at("version").count(),
		AgentName: def.Name, AgentLabel: def.Title(), CreatedAt: p.at("createdAt").moment(), UpdatedAt: p.at("updatedAt").moment(),
	}
	im.checkID(p.at("sessionId"), info.ID)
	if info.ParentID != "" {
		im.checkID(p.at("parentId"), info.ParentID)
	}
	if info.CreatedAt.IsZero() {
		im.fail(p.at("createdAt").path, "is missing")
	}
	info.UpdatedAt = cmp.Or(info.UpdatedAt, info.CreatedAt)
	return info
}

func (im *importer) checkID(p value, id string) {
	var invalid *session.InvalidError
	if errors.As(session.CheckID(id), &invalid) {
		im.fail(p.path, "%s", invalid.Reason)
	}
}
