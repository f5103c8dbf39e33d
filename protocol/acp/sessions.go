package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// dirKey is the metadata of a session that says where it works.
const dirKey = "cwd"

func (s *server) newSession(ctx context.Context, in openRequest) (openResponse, error) {
	w, err := s.open(ctx, in)
	if err != nil {
		return openResponse{}, err
	}
	dir, err := session.JSON(in.Dir)
	if err != nil {
		return openResponse{}, errors.Join(err, w.close())
	}
	made, err := w.Create(ctx, w.Definition, append(w.Options, holdfast.WithSeed(session.Seed{Metadata: session.Values{dirKey: dir}}))...)
	if err != nil {
		return openResponse{}, errors.Join(err, w.close())
	}
	t := s.newThread(made.ID(), in.Dir, w)
	t.titled = false
	if err := t.replay(ctx, false); err != nil {
		return openResponse{}, errors.Join(err, w.close())
	}
	if err := s.add(ctx, t); err != nil {
		return openResponse{}, err
	}
	return openResponse{SessionID: made.ID(), Modes: w.modes(made)}, nil
}

// loadSession opens a session that exists, and shows what it has where that is
// asked for.
func (s *server) loadSession(ctx context.Context, in openRequest, show bool) (openResponse, error) {
	if err := s.closeSession(ctx, in.SessionID); err != nil && !errors.Is(err, session.ErrNotFound) { // it is opened again
		return openResponse{}, err
	}
	w, err := s.open(ctx, in)
	if err != nil {
		return openResponse{}, err
	}
	opened, err := w.Get(ctx, in.SessionID, holdfast.WithTail())
	if err != nil {
		return openResponse{}, errors.Join(err, w.close())
	}
	if err := checkChat(opened.Info()); err != nil {
		return openResponse{}, errors.Join(err, w.close())
	}
	if dirOf(opened) != in.Dir && !opened.Running() {
		if _, err := w.Execute(ctx, in.SessionID, holdfast.WriteMetadata{Key: dirKey, Value: in.Dir}); err != nil {
			return openResponse{}, errors.Join(err, w.close())
		}
	}
	t := s.newThread(in.SessionID, in.Dir, w)
	t.titled = opened.Info().Name != ""
	if err := t.replay(ctx, show); err != nil {
		return openResponse{}, errors.Join(err, w.close())
	}
	if err := s.add(ctx, t); err != nil {
		return openResponse{}, err
	}
	return openResponse{Modes: w.modes(opened)}, nil
}

func checkChat(i session.Info) error {
	switch {
	case i.Kind != session.KindChat:
		return &session.InvalidError{Field: "sessionId", Reason: fmt.Sprintf("%s is a %s, and an editor opens chats", i.ID, i.Kind)}
	case i.Status == session.Deleted:
		return &session.NotFoundError{What: "session", ID: i.ID}
	}
	return nil
}

// open makes the workspace of a session.
func (s *server) open(ctx context.Context, in openRequest) (Workspace, error) {
	if !filepath.IsAbs(in.Dir) {
		return Workspace{}, &session.InvalidError{Field: "cwd", Reason: fmt.Sprintf("%q is not an absolute path", in.Dir)}
	}
	if len(in.AdditionalDirectories) > 0 {
		return Workspace{}, &session.InvalidError{Field: "additionalDirectories", Reason: "a session works in one folder, its cwd"}
	}
	f := Folder{Dir: in.Dir}
	for _, server := range in.MCPServers {
		if server.Type != "" && server.Type != "http" {
			return Workspace{}, &session.InvalidError{Field: "mcpServers", Reason: fmt.Sprintf("%s has the transport %q; stdio and http are offered", server.Name, server.Type)}
		}
		f.Servers = append(f.Servers, session.MCPServer{
			ID: server.Name, Command: server.Command, Args: server.Args, Env: asMap(server.Env), URL: server.URL, Headers: asMap(server.Headers),
		})
	}
	return s.config.Open(ctx, f)
}

func asMap(list []variable) map[string]string {
	values := make(map[string]string, len(list))
	for _, v := range list {
		values[v.Name] = v.Value
	}
	return values
}

func (w Workspace) close() error {
	if w.Close == nil {
		return nil
	}
	return w.Close()
}

// add begins to follow a session.
func (s *server) add(ctx context.Context, t *thread) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.threads[t.id] != nil {
		return errors.Join(&session.InvalidError{Field: "sessionId", Reason: t.id + " is being opened already"}, t.close())
	}
	s.threads[t.id] = t
	t.follow(ctx)
	return nil
}

// thread finds a session that is open.
func (s *server) thread(id string) (*thread, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.threads[id]; t != nil {
		return t, nil
	}
	return nil, &session.NotFoundError{What: "open session", ID: id}
}

// closeSession cancels what a session executes and forgets it. Its store keeps it.
func (s *server) closeSession(ctx context.Context, id string) error {
	t, err := s.thread(id)
	if err != nil {
		return err
	}
	t.cancelTurn(ctx, t.markCancelled())
	s.mu.Lock()
	delete(s.threads, id)
	s.mu.Unlock()
	return t.close()
}

// closeAll closes the workspaces, when nothing is executing.
func (s *server) closeAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, t := range s.threads {
		errs = append(errs, t.close())
	}
	return errors.Join(errs...)
}

// deleteSession deletes a session. One that is gone is no error: the editor
// wanted that.
func (s *server) deleteSession(ctx context.Context, id string) error {
	if err := s.closeSession(ctx, id); err != nil && !errors.Is(err, session.ErrNotFound) {
		return err
	}
	_, err := s.config.Sessions.Execute(ctx, id, holdfast.DeleteSession{})
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrStatus) {
		return nil
	}
	return err
}

// listSessions lists the chats that have a folder, the newest first. One that
// was made elsewhere gets it when an editor loads it.
func (s *server) listSessions(ctx context.Context, in listRequest) (listResponse, error) {
	q := store.Query{Kinds: []session.Kind{session.KindChat}, Order: store.UpdatedDesc, Cursor: in.Cursor}
	if in.Dir != "" {
		q.Metadata = map[string]string{dirKey: in.Dir}
	}
	page, err := s.config.Sessions.List(ctx, q)
	if err != nil {
		return listResponse{}, err
	}
	out := listResponse{Sessions: []sessionInfo{}, NextCursor: page.Next}
	for _, i := range page.Items {
		dir := in.Dir
		if dir == "" {
			listed, err := s.config.Sessions.Get(ctx, i.ID)
			if errors.Is(err, session.ErrNotFound) { // it was purged meanwhile
				continue
			}
			if err != nil {
				return listResponse{}, err
			}
			dir = dirOf(listed)
		}
		if i.Origin != session.OriginSubagent && dir != "" {
			out.Sessions = append(out.Sessions, sessionInfo{SessionID: i.ID, Dir: dir, Title: i.Name, UpdatedAt: i.UpdatedAt.Format(time.RFC3339Nano)})
		}
	}
	return out, nil
}

// dirOf returns where a session works, "" where it does not say.
func dirOf(s session.Session) string {
	var dir string
	if json.Unmarshal(s.Metadata()[dirKey], &dir) != nil {
		return "" // a value of another kind says nothing here
	}
	return dir
}

// modes are the permission modes of sessions.
var modes = []mode{
	{session.PermissionDefault, "Default", "Reads; asks for everything else."},
	{session.PermissionPlan, "Plan", "Reads; everything else is denied."},
	{session.PermissionDontAsk, "Never ask", "Reads; what would be asked for is denied."},
	{session.PermissionAcceptEdits, "Accept edits", "Edits files of the workspace without asking."},
	{session.PermissionDangerousOnly, "Ask if dangerous", "Edits and harmless commands run without asking."},
	{session.PermissionAllowKnown, "Allow what is known", "Everything whose effect is known runs without asking, but sends nothing out."},
	{session.PermissionBypass, "Bypass permissions", "Everything runs without asking, but what rules deny and what sends data out."},
}

func (w Workspace) modes(s session.Session) *modeState {
	if !w.Modes {
		return nil
	}
	return &modeState{CurrentModeID: s.Permissions().Mode, AvailableModes: modes}
}

func (s *server) setMode(ctx context.Context, in setModeRequest) error {
	t, err := s.thread(in.SessionID)
	if err != nil {
		return err
	}
	if !t.Modes {
		return &session.InvalidError{Field: "modeId", Reason: "this session's mode cannot be changed from here"}
	}
	_, err = t.Execute(ctx, t.id, holdfast.ChangePermissionMode{Mode: in.ModeID})
	return err
}
