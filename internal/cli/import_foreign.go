package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

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
			return nil, &session.CorruptError{Path: path, Reason: err.Error()}
		}
		if !is {
			continue
		}
		all, err := program.read(ctx, d)
		if err == nil && len(all) == 0 {
			err = &session.InvalidError{Field: "file", Reason: path + " has no conversation"}
		}
		return all, err
	}
	return nil, &session.InvalidError{Field: "file", Reason: path + " is a SQLite file, but neither of the OpenAI Agents SDK nor of LangGraph; a store of Holdfast is read with --store sqlite:" + path}
}

// importConversations stores conversations as sessions: all of them, or none
// where one is invalid or there already.
func (p *program) importConversations(ctx context.Context, e *setup.Env, all []foreign.Conversation, newID bool) error {
	sessions := make([]session.Session, len(all))
	reports := make([]foreign.Report, len(all))
	for i, c := range all {
		o := foreign.Options{AgentID: uuid.NewString(), Tenant: e.Tenant, Now: p.Now()}
		if newID {
			o.NewID = uuid.NewString()
		}
		var err error
		if sessions[i], reports[i], err = c.Session(o); err != nil {
			return err
		}
		_, err = e.Info(ctx, sessions[i].ID())
		switch {
		case err == nil:
			return &session.ConflictError{ID: sessions[i].ID(), Reason: session.ReasonExists}
		case !errors.Is(err, session.ErrNotFound):
			return err
		}
	}
	for i, s := range sessions {
		s, err := e.Import(ctx, s)
		if err != nil {
			return fmt.Errorf("import session %d of %d: %w", i+1, len(sessions), err)
		}
		p.printImportReport(reports[i])
		if err := p.printDone("imported", s.Info()); err != nil {
			return err
		}
	}
	return nil
}
