package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/interop/claudecode"
	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/interop/langgraph"
	"github.com/holdfast-dev/holdfast/interop/letta"
	"github.com/holdfast-dev/holdfast/interop/openaiagents"
	"github.com/holdfast-dev/holdfast/session"
)

// readConversations reads the conversations that another program keeps in a file.
// Without any, the file is of no such program.
func readConversations(ctx context.Context, path string, data []byte) ([]foreign.Conversation, error) {
	switch {
	case foreign.IsSQLite(data):
		return readDatabase(ctx, path)
	case claudecode.Detect(data):
		c, err := claudecode.Read(data)
		return []foreign.Conversation{c}, err
	case letta.Detect(data):
		return letta.Read(data)
	}
	return nil, nil
}

func readDatabase(ctx context.Context, path string) (all []foreign.Conversation, err error) {
	if path == "-" {
		return nil, &session.InvalidError{Field: "file", Reason: "a SQLite file cannot be read from standard input; name the file"}
	}
	d, err := foreign.OpenSQLite(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, program := range []struct {
		detect func(context.Context, *foreign.Database) (bool, error)
		read   func(context.Context, *foreign.Database) ([]foreign.Conversation, error)
	}{{openaiagents.Detect, openaiagents.Read}, {langgraph.Detect, langgraph.Read}} {
		is, err := program.detect(ctx, d)
		if err != nil {
			return nil, &session.CorruptError{Reason: err.Error()}
		}
		if !is {
			continue
		}
		all, err := program.read(ctx, d)
		if err == nil && len(all) == 0 {
			err = &session.InvalidError{Field: "file", Reason: "it has no conversation"}
		}
		return all, err
	}
	return nil, &session.InvalidError{Field: "file", Reason: "it is a SQLite file, but neither of the OpenAI Agents SDK nor of LangGraph; a store of Holdfast is read with --store sqlite:" + path}
}

// imported is a session that is to be stored, and what was left out of it.
type imported struct {
	session session.Session
	report  foreign.Report
}

// importConversations stores conversations as sessions.
func (p *program) importConversations(ctx context.Context, e *setup.Env, all []foreign.Conversation, newID bool) error {
	made := make([]imported, len(all))
	ids := map[string]bool{}
	for i, c := range all {
		o := foreign.Options{AgentID: uuid.NewString(), Tenant: e.Tenant, Now: p.Now()}
		if newID {
			o.NewID = uuid.NewString()
		}
		s, report, err := c.Session(o)
		if err != nil {
			return err
		}
		if ids[s.ID()] {
			return &session.InvalidError{Field: "file", Reason: fmt.Sprintf("two of its sessions have the id %q; --new-id stores each under a new id", s.ID())}
		}
		ids[s.ID()] = true
		made[i] = imported{s, report}
	}
	return p.storeImports(ctx, e, made)
}

// storeImports stores all sessions, or none. Those that an earlier import of the
// same file has stored stay as they are: an import that was killed can be
// repeated.
func (p *program) storeImports(ctx context.Context, e *setup.Env, made []imported) error {
	there := make([]session.Info, len(made)) // zero where the session is new
	for i, m := range made {
		var err error
		if there[i], err = findImported(ctx, e, m.session); err != nil {
			return err
		}
	}
	stored := make([]session.Info, len(made))
	for i, m := range made {
		if there[i].ID != "" {
			continue
		}
		s, err := e.Import(ctx, m.session)
		if !s.IsZero() {
			stored[i] = s.Info()
		}
		if err != nil {
			if len(made) > 1 {
				err = fmt.Errorf("session %d of %d: %w", i+1, len(made), err)
			}
			return errors.Join(err, removeImports(context.WithoutCancel(ctx), e, stored))
		}
	}
	for i, m := range made {
		p.printImportReport(m.report)
		done, info := "imported", stored[i]
		if there[i].ID != "" {
			done, info = "there already:", there[i]
		}
		if err := p.printDone(done, info); err != nil {
			return err
		}
	}
	return nil
}

// findImported returns the session that an earlier import of the same has
// stored, without an id where there is none. Another session with the id is a
// conflict.
func findImported(ctx context.Context, e *setup.Env, s session.Session) (session.Info, error) {
	info, err := e.Info(ctx, s.ID())
	if errors.Is(err, session.ErrNotFound) {
		return session.Info{}, nil
	}
	if err != nil {
		return session.Info{}, err
	}
	taken := &session.ConflictError{ID: s.ID(), Reason: session.ReasonExists}
	if info.Origin != session.OriginImport || info.Status == session.Deleted {
		return session.Info{}, taken
	}
	options := []holdfast.Option{holdfast.Whole()}
	if info.Version > 1 {
		options = append(options, holdfast.At(1))
	}
	first, err := e.Get(ctx, s.ID(), options...)
	if errors.Is(err, session.ErrUnsupported) { // a store without a history
		return session.Info{}, taken
	}
	if err != nil {
		return session.Info{}, err
	}
	same, err := sameContent(first, s)
	if err == nil && !same {
		err = taken
	}
	return info, err
}

// sameContent reports whether two sessions have the same name, agent, messages
// and memory. Times do not count: where a file has none, they are those of the
// import.
func sameContent(a, b session.Session) (bool, error) {
	var contents [2][]byte
	for i, s := range []session.Session{a, b} {
		content := struct {
			Name       string
			Definition session.Definition
			Messages   []session.Message
			Memory     map[string]json.RawMessage
		}{s.Info().Name, s.Definition(), s.Messages(), map[string]json.RawMessage{}}
		for m := range content.Messages {
			content.Messages[m].CreatedAt = time.Time{}
		}
		for key, v := range s.Variables() {
			content.Memory[key] = v.Value
		}
		var err error
		if contents[i], err = session.JSON(content); err != nil {
			return false, err
		}
	}
	return bytes.Equal(contents[0], contents[1]), nil
}

// removeImports removes what was stored of an import that failed.
func removeImports(ctx context.Context, e *setup.Env, stored []session.Info) error {
	for _, i := range stored {
		if i.ID == "" {
			continue
		}
		if err := e.Purge(ctx, i.ID); err != nil {
			return fmt.Errorf("session %s of the file stays: %w", i.ID, err)
		}
	}
	return nil
}
