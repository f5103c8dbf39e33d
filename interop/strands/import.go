package strands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// format names, in an import change, where a session came from.
const format = "strands.session"

// ImportOptions say how a directory becomes a session.
type ImportOptions struct {
	ID     string // of the session; empty: the directory's
	Tenant string // empty: the default
	// Spec is the file of the spec, for a directory that does not say where it
	// was. What the spec refers to is read beside it.
	Spec string
}

// Importer stores sessions: a holdfast.Runtime, or the client of a server.
type Importer interface {
	Import(ctx context.Context, s session.Session) (session.Session, error)
}

// Import stores the run of a session directory, strands-cli's or one of
// Export, as a session that resumes where the run was: nothing that the
// directory records is asked again. Notes say what could not be taken over.
//
// A directory without its spec, or with one that cannot be read, is a
// session.SpecError; one without a session a session.NotFoundError; one that
// cannot be used a session.CorruptError.
func Import(ctx context.Context, to Importer, d Dir, o ImportOptions) (id string, notes []string, err error) {
	c, err := d.contents(o.Spec)
	if err != nil {
		return "", nil, err
	}
	s, notes, err := c.newSession(session.Identity{ID: o.ID, Tenant: o.Tenant}) //nolint:contextcheck // to look at a log waits for nothing
	if err != nil {
		return "", nil, err
	}
	if s, err = to.Import(ctx, s); err != nil {
		return "", nil, err
	}
	return s.ID(), notes, nil
}

// contents is everything a directory says of its run.
type contents struct {
	dir           Dir
	state         State
	variables     spec.Map[string]
	spec          *spec.Spec
	snapshot      *spec.Snapshot
	conversations []workflow.Conversation
}

// contents reads the directory. It writes nothing there.
func (d Dir) contents(specPath string) (*contents, error) {
	st, err := d.Load()
	if err != nil {
		return nil, err
	}
	c := &contents{dir: d, state: st}
	for name, value := range st.Variables.All() {
		c.variables = append(c.variables, spec.Entry[string]{Name: name, Value: value})
	}
	if c.spec, err = d.spec(st, c.variables, specPath); err != nil {
		return nil, err
	}
	if c.snapshot, err = c.spec.Snapshot(); err != nil {
		return nil, err
	}
	c.conversations, err = d.runConversations(st.Metadata.SessionID, c.spec.Agents.Names())
	return c, err
}

// newSession returns the run as a session that is not stored; the same directory
// gives the same session. Notes say what could not be taken over.
func (c *contents) newSession(identity session.Identity) (s session.Session, notes []string, err error) {
	m := c.state.Metadata
	if identity.ID == "" {
		identity.ID = m.SessionID
	}
	identity.AgentID, identity.Kind = uuid.NewSHA1(uuid.NameSpaceOID, []byte(identity.ID)).String(), session.KindWorkflow
	begun, err := workflow.Beginning(c.spec, c.snapshot, c.variables)
	if err != nil {
		return s, nil, err
	}
	if begun.Runtime, err = session.JSON(c.state.RuntimeConfig); err != nil {
		return s, nil, err
	}
	if begun.Extra, err = c.state.unknownKeys(); err != nil {
		return s, nil, err
	}
	if s, err = session.New(identity, workflow.Definition(c.spec), session.Seed{}, m.CreatedAt); err == nil {
		s, err = s.With(m.UpdatedAt, begun, session.SessionImported{Format: format, Version: c.version(), UpdatedAt: m.UpdatedAt})
	}
	if err != nil {
		return s, nil, c.corrupt(err)
	}
	return c.extend(s)
}

// version returns the version of the session that the files were written of.
func (c *contents) version() int64 {
	if c.state.Holdfast == nil {
		return 0
	}
	return c.state.Holdfast.Version
}

// corrupt turns a run that a session cannot take into a corrupt directory.
func (c *contents) corrupt(err error) error {
	var invalid *session.InvalidError
	if errors.As(err, &invalid) {
		return &session.CorruptError{ID: c.dir.ID(), Path: c.dir.file(patternFile), Reason: invalid.Error()}
	}
	return err
}

// extend adds everything to a whole session, as pending changes, that the
// directory says beyond its log. A directory that contradicts the log is a
// session.ConflictError.
func (c *contents) extend(s session.Session) (next session.Session, notes []string, err error) {
	m := c.state.Metadata
	w, err := workflow.NewRecorder(s, m.UpdatedAt)
	if err != nil {
		return s, nil, c.corrupt(err)
	}
	c.spec = w.Spec()
	h, err := newHistory(c)
	if err != nil {
		return s, nil, c.corrupt(err)
	}
	ended := w.Replay(h)
	h.addLostRoute(w)
	if h.differs {
		return s, nil, &session.ConflictError{ID: s.ID(), Reason: session.ReasonReplaced, Want: c.version(), Have: s.Version()}
	}
	for _, t := range h.threads {
		t.addSummary(w)
	}
	w.AddArtifacts(c.state.ArtifactsWritten)
	w.SetUsage(c.state.usage(c.spec))
	status := m.Status
	if h.completed && w.Waits() {
		h.note("the run reads as completed, but a question is open: it is paused")
		status = workflow.StatusPaused
	}
	if status == workflow.StatusCompleted && !ended {
		h.note("the run reads as completed, but not everything it did is recorded")
	}
	next, err = w.Finish(status, m.Error)
	return next, h.notes, c.corrupt(err)
}

// spec reads the snapshot, with the copies beside it or, where there is no
// list of them, the files it refers to.
func (d Dir) spec(st State, vars spec.Map[string], path string) (*spec.Spec, error) {
	refuse := func(format string, args ...any) error {
		return &session.SpecError{File: d.SnapshotPath(), Reason: fmt.Sprintf(format, args...)}
	}
	data, err := d.Snapshot()
	if errors.Is(err, session.ErrCorrupt) {
		return nil, refuse("is missing: the directory was copied without it; put the workflow's file there")
	}
	if err != nil {
		return nil, err
	}
	if path == "" && st.Holdfast != nil {
		path = st.Holdfast.SpecPath
	}
	if path == "" {
		path = d.SnapshotPath()
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, refuse("%v", err)
	}
	copies, err := d.SpecFiles()
	if err != nil {
		return nil, err
	}
	snap := &spec.Snapshot{Path: path, SHA256: st.Metadata.SpecHash, Spec: data}
	for _, c := range copies {
		snap.Files = append(snap.Files, c.File)
	}
	if len(copies) == 0 {
		found, err := spec.Loader{Lenient: true}.Parse(spec.Source{Path: path, Data: data, Read: os.ReadFile}, vars)
		if err != nil {
			return nil, err
		}
		whole, err := found.Snapshot()
		if err != nil {
			return nil, err
		}
		snap.Files = whole.Files
	}
	return spec.Loader{Lenient: true}.Parse(snap.Source(), vars)
}

// runConversations reads the conversations of all agents in the form of a run.
func (d Dir) runConversations(id string, agents []string) ([]workflow.Conversation, error) {
	found, err := d.Conversations(id, agents)
	if err != nil {
		return nil, err
	}
	list := make([]workflow.Conversation, 0, len(found))
	for _, c := range found {
		removed, summary, err := c.Agent.Removed()
		if err != nil {
			return nil, err
		}
		groups := toGroups("", c.Messages)
		made := workflow.Conversation{Agent: c.Place.Agent, Lane: runLane(c.Place.Lane), System: c.Agent.system(), Messages: slices.Concat(groups...)}
		made.Removed = len(slices.Concat(groups[:min(removed, len(groups))]...))
		if summary != nil {
			for _, m := range summary.messages() {
				made.Summary += m.Content.Text()
			}
		}
		list = append(list, made)
	}
	return list, nil
}

// usage returns what each agent has used. Where the files have no more than sums,
// they are shared out by the words that each agent's results count.
func (s State) usage(made *spec.Spec) map[string]session.AgentUse {
	total := s.TokenUsage
	if s.Holdfast != nil && total.agrees(s.Holdfast.Usage) {
		return maps.Collect(s.Holdfast.Usage.All())
	}
	if total.TotalInput+total.TotalOutput <= 0 {
		return nil
	}
	shares, known := total.ByAgent, true
	if shares.Len() == 0 {
		shares, known = s.words(), false
	}
	if shares.Len() == 0 {
		shares.Set(made.Agents[0].Name, total.TotalInput+total.TotalOutput)
	}
	return shareOut(total, shares, !known)
}

// agrees reports that the use of all agents makes up the sums.
func (u TokenUsage) agrees(by Dict[session.AgentUse]) bool {
	var input, output int64
	for name, use := range by.All() {
		if sum, ok := u.ByAgent.Get(name); !ok || sum != use.Input+use.Output {
			return false
		}
		input, output = input+use.Input, output+use.Output
	}
	return input == u.TotalInput && output == u.TotalOutput
}

// shareOut divides input and output so that both sums come out; the last agent
// takes what is left.
func shareOut(total TokenUsage, shares Dict[int64], estimated bool) map[string]session.AgentUse {
	uses := map[string]session.AgentUse{}
	input, output, n := total.TotalInput, total.TotalOutput, 0
	for name, share := range shares.All() {
		n++
		in := share * total.TotalInput / (total.TotalInput + total.TotalOutput)
		use := session.AgentUse{Input: min(max(in, share-output, 0), input), Estimated: estimated}
		use.Output = min(max(share-use.Input, 0), output)
		if n == shares.Len() {
			use.Input, use.Output = input, output
		}
		input, output = input-use.Input, output-use.Output
		uses[name] = use
	}
	return uses
}

// words sums the estimates of the results that name their agent.
func (s State) words() Dict[int64] {
	st, err := s.pattern()
	if err != nil {
		return Dict[int64]{} // an import refuses it
	}
	results := slices.Concat(st.Steps, slices.Collect(maps.Values(st.Tasks)), slices.Collect(maps.Values(st.Nodes)))
	if st.RouteState != nil {
		results = append(results, st.RouteState.Steps...)
	}
	branches := slices.Collect(maps.Values(st.Branches))
	if s.Metadata.Status != workflow.StatusCompleted {
		branches = slices.AppendSeq(branches, maps.Values(st.BranchStates))
	}
	for _, b := range branches {
		results = append(results, b.Steps...)
	}
	sums := map[string]int64{}
	for _, r := range results {
		if r.Agent != "" && r.Tokens != nil && *r.Tokens > 0 {
			sums[r.Agent] += int64(*r.Tokens)
		}
	}
	var sorted Dict[int64]
	for _, agent := range slices.Sorted(maps.Keys(sums)) {
		sorted.Set(agent, sums[agent])
	}
	return sorted
}
