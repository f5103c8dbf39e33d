package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/interop/instructor"
	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/file"
)

func (p *program) importCommand() *cobra.Command {
	var newID bool
	cmd := &cobra.Command{
		Use: "import PATH", Short: "store sessions of a file, our own or another program's; - reads standard input", Args: cobra.ExactArgs(1),
		Long: `Store the sessions of a file. Its format is found out: what "sessions export" printed, a
session file of instructor-php, a transcript of Claude Code, a SQLite file of the OpenAI Agents
SDK or of LangGraph, or agents of Letta (.af). A directory is that of a run of strands-cli,
which "holdfast run --resume" then continues. Credentials are never taken over. What the
session was allowed is not either, and its approvals are asked for again. What was left out is
listed on standard error. With --json: the header of each session.`,
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, args []string) error {
			if info, err := os.Stat(args[0]); err == nil && info.IsDir() {
				return p.importDir(ctx, e, args[0], newID)
			}
			if err := p.importFile(ctx, e, args[0], newID); err != nil {
				return &importError{path: args[0], err: err}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&newID, "new-id", false, "store it under a new id, for when the old one is taken")
	return cmd
}

// importError is an import that changed nothing.
type importError struct {
	path string
	err  error
}

func (e *importError) Error() string { return "import " + e.path + ": " + e.err.Error() }
func (e *importError) Unwrap() error { return e.err }

func (e *importError) hint() string {
	var taken *session.ConflictError
	if errors.As(e.err, &taken) && taken.Reason == session.ReasonExists {
		return "nothing was imported; --new-id stores it under a new id"
	}
	return "nothing was imported"
}

// importFile stores the sessions of a file, whose format it finds out.
func (p *program) importFile(ctx context.Context, e *setup.Env, path string, newID bool) error {
	data, err := p.readImport(ctx, path)
	if err != nil {
		return err
	}
	found, err := readConversations(ctx, path, data)
	if err != nil {
		return err
	}
	if found != nil {
		return p.importConversations(ctx, e, found, newID)
	}
	id := ""
	if newID {
		id = uuid.NewString()
	}
	s, report, err := p.parseSession(data, id, e.Tenant)
	if err != nil {
		return err
	}
	return p.storeImports(ctx, e, []imported{{s, report}})
}

// maxImport is how many bytes a file may have that is read as a whole. SQLite
// files are not.
const maxImport = 256 << 20

// readImport reads a file, of a SQLite file only the beginning.
func (p *program) readImport(ctx context.Context, path string) (data []byte, err error) {
	if path == "-" {
		data, err = p.ReadFile(ctx, path)
	} else {
		data, err = readStart(path)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxImport:
		return nil, &session.InvalidError{Field: "file", Reason: fmt.Sprintf("it has more than %d MiB", maxImport>>20)}
	case len(bytes.TrimSpace(data)) == 0:
		return nil, &session.InvalidError{Field: "file", Reason: "it is empty"}
	}
	return data, nil
}

func readStart(path string) (data []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	head, err := io.ReadAll(io.LimitReader(f, foreign.SQLiteHead))
	if err != nil || foreign.IsSQLite(head) {
		return head, err
	}
	rest, err := io.ReadAll(io.LimitReader(f, maxImport))
	return append(head, rest...), err
}

// foreignRun is what a folder lacks that is imported and has no run.
const foreignRun = "run of strands-cli in folder"

// importDir stores the run that another program keeps in a directory.
func (p *program) importDir(ctx context.Context, e *setup.Env, dir string, newID bool) error {
	o := strands.ImportOptions{Tenant: e.Tenant}
	if newID {
		o.ID = uuid.NewString()
	}
	id, notes, err := strands.Import(ctx, e, strands.Dir(dir), o)
	if errors.Is(err, session.ErrNotFound) {
		return &session.NotFoundError{What: foreignRun, ID: dir}
	}
	if err != nil {
		return err
	}
	for _, note := range notes {
		p.Err.Status("note: %s", note)
	}
	i, err := e.Info(ctx, id)
	if err != nil {
		return err
	}
	return p.printDone("imported", i)
}

// parseSession makes a session of a document, our own or a foreign one. An empty id
// keeps the document's. It is a new agent: two stores never hold the same one.
func (p *program) parseSession(data []byte, id, tenant string) (session.Session, foreign.Report, error) {
	agentID := uuid.NewString()
	if instructor.Detect(data) {
		return instructor.Import(data, foreign.Options{
			NewID: id, AgentID: agentID, Tenant: tenant, Now: p.Now(), NewMessageID: uuid.NewString,
		})
	}
	document, err := file.Document(data)
	if err != nil {
		return session.Session{}, foreign.Report{}, err
	}
	s, err := session.Decode(document)
	var wrong *session.InvalidError
	if object := bytes.HasPrefix(bytes.TrimSpace(document), []byte("{")); !object || errors.As(err, &wrong) && wrong.Field == "format" {
		return s, foreign.Report{}, &session.InvalidError{Field: "file", Reason: "it has no format that is known; see: holdfast import --help"}
	}
	if err != nil {
		return session.Session{}, foreign.Report{}, err
	}
	if s, err = s.Imported(id, agentID, tenant, session.SessionImported{Format: session.Format}, p.Now()); err != nil {
		return s, foreign.Report{}, err
	}
	var report foreign.Report
	for _, r := range session.Unsaved(s) {
		if c, ok := r.Change.(session.SessionImported); ok {
			report.Dropped = c.Dropped
		}
	}
	return s, report, nil
}

// printImportReport says what an import left out, changed or will need.
func (p *program) printImportReport(r foreign.Report) {
	for _, path := range r.Dropped {
		p.Err.Status("left out: %s", path)
	}
	for _, path := range r.Unknown {
		p.Err.Status("not known, left out: %s", path)
	}
	for _, n := range r.Renamed {
		p.Err.Status("renamed: %s %q is now %q", n.Path, n.From, n.To)
	}
	for _, note := range r.Notes {
		p.Err.Status("note: %s", note)
	}
	for _, model := range r.Models {
		p.Err.Status("it needs the model %s", model)
	}
	for _, tool := range r.Tools {
		p.Err.Status("it needs the tool %s", tool)
	}
}
