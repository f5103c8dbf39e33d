package strands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// comparison says how the files of a session differ from its log.
type comparison struct {
	is     relation
	header Metadata
	log    session.Info // zero where there is no log
}

type relation int

const (
	inSync  relation = iota // they say the same, or there is nothing to say
	behind                  // a crash kept the files from being written, or tore them
	unknown                 // there is no log: the other program made them
	changed                 // the other program wrote them since
)

// compare reads the files and the log of a session.
func (s *Store) compare(ctx context.Context, r store.Ref) (comparison, error) {
	if err := r.Check(); err != nil {
		return comparison{}, err
	}
	info, logErr := s.logs.Info(ctx, r)
	if logErr != nil && !errors.Is(logErr, session.ErrNotFound) {
		return comparison{}, logErr
	}
	d := s.at(r)
	raw, err := os.ReadFile(d.file(sessionFile))
	switch {
	case errors.Is(err, fs.ErrNotExist) && logErr == nil && info.Kind == session.KindWorkflow:
		return comparison{is: behind, log: info}, nil
	case errors.Is(err, fs.ErrNotExist):
		return comparison{log: info}, logErr
	case err != nil:
		return comparison{}, fmt.Errorf("load session %s: %w", r.ID, err)
	}
	st, err := decodeSession(raw)
	if err == nil {
		err = d.checkOwner(st.Metadata)
	}
	if err != nil {
		return comparison{}, d.locate(err)
	}
	found := comparison{header: st.Metadata, log: info}
	switch ext := st.Holdfast; {
	case logErr != nil:
		found.is = unknown
	case ext == nil:
		found.is = changed
	case ext.Version > info.Version:
		return comparison{}, &session.ConflictError{ID: r.ID, Reason: session.ReasonStale, Want: ext.Version, Have: info.Version}
	case ext.Version < info.Version || !d.matches(*ext):
		found.is = behind
	}
	return found, nil
}

// matches reports a pattern state that goes with its session.json.
func (d Dir) matches(ext Extension) bool {
	raw, err := os.ReadFile(d.file(patternFile))
	return err == nil && spec.Hash(raw) == ext.PatternSHA256
}

// reconcile brings log and files together, unless somebody else is at work on
// them. Closely, it also looks for messages that the other program left
// without having come further.
func (s *Store) reconcile(ctx context.Context, r store.Ref, closely bool) error {
	found, err := s.compare(ctx, r)
	if err == nil && found.is == inSync && closely && found.log.Kind == session.KindWorkflow {
		found.is, err = s.compareConversations(ctx, r)
	}
	if err != nil || found.is == inSync {
		return err
	}
	s.mu.Lock()
	_, mine := s.held[r]
	queued := s.writers[r] != nil
	s.mu.Unlock()
	if queued && found.is == behind {
		return nil // they are being written
	}
	if !mine {
		unlock, err := s.at(r).Lock()
		if errors.Is(err, session.ErrBusy) {
			if found.is == unknown {
				return err
			}
			return nil // whoever runs it writes the files
		}
		if err != nil {
			return err
		}
		defer func() { _ = unlock() }() // closing the file is what unlocks it, and that cannot be refused
	}
	if found.is != behind {
		return s.adopt(ctx, r, found.is)
	}
	saved, err := s.logs.Load(ctx, r, false)
	if err == nil {
		s.writeFiles(ctx, saved)
	}
	return err
}

// compareConversations compares the conversations.
func (s *Store) compareConversations(ctx context.Context, r store.Ref) (relation, error) {
	saved, err := s.logs.Load(ctx, r, false)
	if err != nil {
		return inSync, err
	}
	l, err := newLayout(saved) //nolint:contextcheck // to look at a log waits for nothing
	if err != nil {
		return inSync, nil //nolint:nilerr // a run that cannot be shown has no files to differ
	}
	there, err := s.at(r).Conversations(r.ID, l.agents)
	if err != nil {
		return inSync, err
	}
	written := map[Place]int{}
	for _, c := range l.conversations {
		written[c.Place] = len(c.Messages)
	}
	for _, c := range there {
		if len(c.Messages) > written[c.Place] {
			return changed, nil
		}
	}
	return inSync, nil
}

// adopt makes a log of what the other program left, or adds to the log what it
// did since.
func (s *Store) adopt(ctx context.Context, r store.Ref, is relation) error {
	next, at, notes, err := s.extended(ctx, r, is)
	if err != nil {
		return err
	}
	var saved session.Session
	commit := store.Commit{ID: uuid.NewString(), Action: "adopt", At: at}
	if is == unknown {
		if saved, err = s.logs.Create(ctx, next, commit); errors.Is(err, session.ErrConflict) {
			return nil // somebody else was faster
		}
	} else if saved, err = s.logs.Save(ctx, next, commit); errors.Is(err, session.ErrBusy) {
		return nil // it is run here; whoever runs it will meet the change
	}
	if err != nil {
		return err
	}
	for _, note := range notes {
		s.log.Warn("not all of a run was taken over", "session", r.ID, "reason", note)
	}
	s.writeFiles(ctx, saved)
	return nil
}

// writeFiles writes the files of a run. The version is saved whatever becomes of
// them: files that could not be written are behind, and the next to look
// writes them again.
func (s *Store) writeFiles(ctx context.Context, saved session.Session) {
	if saved.Info().Kind != session.KindWorkflow {
		return
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	r := store.RefOf(saved)
	if now, err := s.logs.Info(context.WithoutCancel(ctx), r); err != nil || now.Version != saved.Version() {
		return // deleted, or overtaken, by somebody who does the same
	}
	l, err := newLayout(saved) //nolint:contextcheck // to look at a log waits for nothing
	if err == nil {
		l.keep(s.at(r))
		err = l.write(s.at(r))
	}
	if err != nil {
		s.log.Warn("files of a run not written", "session", r.ID, "version", saved.Version(), "error", err)
	}
}

// keep takes keys over that only a newer program knows.
func (l *layout) keep(d Dir) {
	raw, err := os.ReadFile(d.file(sessionFile))
	if err != nil {
		return
	}
	old, err := decodeSession(raw)
	if err != nil {
		return
	}
	l.state.Extra, l.state.Metadata.Extra = old.Extra, old.Metadata.Extra
	l.state.TokenUsage.Extra, l.state.RuntimeConfig.Extra = old.TokenUsage.Extra, old.RuntimeConfig.Extra
	for key, value := range old.Metadata.Metadata.All() {
		if _, own := l.state.Metadata.Metadata.Get(key); !own {
			l.state.Metadata.Metadata.Set(key, value)
		}
	}
}

// Info reads the header: of the log, or of files that it does not know yet.
func (s *Store) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	found, err := s.compare(ctx, r)
	if err != nil {
		return session.Info{}, err
	}
	if found.is != unknown && found.is != changed {
		return s.logs.Info(ctx, r)
	}
	m := found.header
	info := session.Info{
		ID: r.ID, Tenant: r.Tenant, Kind: session.KindWorkflow, Origin: session.OriginImport, Status: session.Active,
		AgentName: workflow.DefinitionName(m.WorkflowName), AgentLabel: m.WorkflowName, CreatedAt: m.CreatedAt,
	}
	if found.is == changed {
		info = found.log
	}
	info.Version++
	info.UpdatedAt = m.UpdatedAt
	info.Workflow = &session.WorkflowRow{Name: m.WorkflowName, SpecHash: m.SpecHash, Pattern: m.PatternType, Status: string(m.Status), Error: m.Error}
	return info, nil
}

// List reads the headers of all sessions of a tenant.
func (s *Store) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	if _, err := s.logs.List(ctx, tenant, store.Query{Limit: 1}); err != nil {
		return store.Page{}, err // closed, or no tenant
	}
	q, after, err := q.Check()
	if err != nil {
		return store.Page{}, err
	}
	ids, err := folders(s.dir).Sessions(tenant)
	if err != nil {
		return store.Page{}, fmt.Errorf("list strands store: %w", err)
	}
	var infos []session.Info
	var corrupt []*session.CorruptError
	for _, id := range ids {
		r := store.Ref{Tenant: tenant, ID: id}
		info, fits, err := s.listed(ctx, r, q)
		var bad *session.CorruptError
		switch {
		case errors.As(err, &bad):
			corrupt = append(corrupt, bad)
		case errors.Is(err, session.ErrNewerFormat), errors.Is(err, session.ErrConflict):
			corrupt = append(corrupt, &session.CorruptError{ID: id, Path: s.at(r).file(sessionFile), Reason: err.Error()})
		case errors.Is(err, session.ErrNotFound): // nobody's, or deleted since
		case err != nil:
			return store.Page{}, err
		case fits:
			infos = append(infos, info)
		}
	}
	page := q.Paginate(infos, after)
	page.Corrupt = corrupt
	return page, nil
}

func (s *Store) listed(ctx context.Context, r store.Ref, q store.Query) (session.Info, bool, error) {
	info, err := s.Info(ctx, r)
	if err != nil {
		return info, false, err
	}
	fits, err := q.Match(info, func() (session.Values, error) {
		loaded, err := s.Load(ctx, r, false)
		if err != nil {
			return nil, err
		}
		return loaded.Metadata(), nil
	})
	return info, fits, err
}
