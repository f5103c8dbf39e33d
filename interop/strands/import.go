package strands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// format is what an imported session says it came from.
const format = "strands.session"

// ImportOptions say how a directory becomes a session.
type ImportOptions struct {
	ID     string // of the session; empty: the directory's
	Tenant string // empty: the default
	// Spec is the file of the spec, for a directory that does not say where it
	// was. What the spec refers to is read beside it.
	Spec string
}

// Import stores the run of a session directory, strands-cli's or one of
// Export, as a session that resumes where the run was: nothing that the
// directory records is asked again. Notes say what could not be taken over.
//
// A directory without its spec, or with one that cannot be read, is a
// session.SpecError; one without a session a session.NotFoundError; one that
// cannot be used a session.CorruptError.
func Import(ctx context.Context, rt *holdfast.Runtime, d Dir, o ImportOptions) (id string, notes []string, err error) {
	f, err := d.foreign(o.Spec)
	if err != nil {
		return "", nil, err
	}
	s, notes, err := d.session(f, session.Birth{ID: o.ID, Tenant: o.Tenant}) //nolint:contextcheck // to look at a log waits for nothing
	if err != nil {
		return "", nil, err
	}
	if s, err = rt.Import(ctx, s); err != nil {
		return "", nil, err
	}
	return s.ID(), notes, nil
}

// session is the directory's run as a session that is not stored.
func (d Dir) session(f workflow.Foreign, birth session.Birth) (session.Session, []string, error) {
	head, err := d.Header()
	if err != nil {
		return session.Session{}, nil, err
	}
	if birth.ID == "" {
		birth.ID = head.SessionID
	}
	birth.AgentID = uuid.NewString()
	s, notes, err := workflow.Adopted(birth, f)
	return s, notes, d.unusable(err)
}

// unusable is what is wrong with the directory when its run cannot be taken.
func (d Dir) unusable(err error) error {
	var invalid *session.InvalidError
	if errors.As(err, &invalid) {
		return &session.CorruptError{ID: d.ID(), Path: d.file(patternFile), Reason: invalid.Error()}
	}
	return err
}

// foreign is everything the directory says of its run.
func (d Dir) foreign(specPath string) (workflow.Foreign, error) {
	st, err := d.Load()
	if err != nil {
		return workflow.Foreign{}, err
	}
	f := workflow.Foreign{
		Format: format, Own: st.Holdfast != nil, Status: workflow.Status(st.Metadata.Status), Error: st.Metadata.Error,
		CreatedAt: st.Metadata.CreatedAt, UpdatedAt: st.Metadata.UpdatedAt, Artifacts: st.ArtifactsWritten,
	}
	if st.Holdfast != nil {
		f.Version = st.Holdfast.Version
	}
	for name, value := range st.Variables.All() {
		f.Variables = append(f.Variables, spec.Entry[string]{Name: name, Value: value})
	}
	if f.Runtime, err = session.JSON(st.RuntimeConfig); err != nil {
		return f, err
	}
	if f.Pattern, err = session.JSON(st.Pattern); err != nil {
		return f, err
	}
	made, err := d.spec(st, f.Variables, specPath)
	if err != nil {
		return f, err
	}
	if f.Snapshot, err = made.Snapshot(); err != nil {
		return f, err
	}
	if f.Talks, err = d.talks(st.Metadata.SessionID, made.Agents.Names()); err != nil {
		return f, err
	}
	f.Usage = st.usage(made)
	return f, nil
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
		snap.Files = append(snap.Files, spec.File{As: c.As, Kind: spec.FileKind(c.Kind), SHA256: c.SHA256, Data: c.Data})
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

// talks are the conversations of all agents.
func (d Dir) talks(id string, agents []string) ([]workflow.Talk, error) {
	conversations, err := d.Conversations(id, agents)
	if err != nil {
		return nil, err
	}
	var talks []workflow.Talk
	for _, c := range conversations {
		removed, summary, err := c.Agent.Removed()
		if err != nil {
			return nil, err
		}
		groups := toGroups("", c.Messages)
		t := workflow.Talk{Agent: c.Place.Agent, Lane: runLane(c.Place.Lane), System: c.Agent.system(), Messages: slices.Concat(groups...)}
		t.Removed = len(slices.Concat(groups[:min(removed, len(groups))]...))
		if summary != nil {
			for _, m := range summary.messages() {
				t.Summary += m.Content.Text()
			}
		}
		talks = append(talks, t)
	}
	return talks, nil
}

// usage is what each agent has used. Where the files have no more than sums,
// they are shared out by the words that each agent's results count.
func (s State) usage(made *spec.Spec) map[string]workflow.AgentUse {
	total := s.TokenUsage
	if s.Holdfast != nil && total.agrees(s.Holdfast.Usage) {
		uses := map[string]workflow.AgentUse{}
		for name, u := range s.Holdfast.Usage.All() {
			uses[name] = workflow.AgentUse{Input: u.Input, Output: u.Output, Calls: int(u.Calls), Estimated: u.Estimated}
		}
		return uses
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
func (u TokenUsage) agrees(by Dict[AgentUsage]) bool {
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
func shareOut(total TokenUsage, shares Dict[int64], estimated bool) map[string]workflow.AgentUse {
	uses := map[string]workflow.AgentUse{}
	input, output, n := total.TotalInput, total.TotalOutput, 0
	for name, share := range shares.All() {
		n++
		in := share * total.TotalInput / (total.TotalInput + total.TotalOutput)
		use := workflow.AgentUse{Input: min(max(in, share-output, 0), input), Estimated: estimated}
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
	var sums Dict[int64]
	var walk func(raw json.RawMessage)
	walk = func(raw json.RawMessage) {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			for _, item := range list {
				walk(item)
			}
			return
		}
		var object Object
		if json.Unmarshal(raw, &object) != nil {
			return
		}
		var agent string
		var tokens int64
		name, _ := object.Get("agent")
		count, counted := object.Get("tokens_estimated")
		if counted && json.Unmarshal(name, &agent) == nil && json.Unmarshal(count, &tokens) == nil && tokens > 0 {
			sum, _ := sums.Get(agent)
			sums.Set(agent, sum+tokens)
			return
		}
		for _, value := range object.All() {
			walk(value)
		}
	}
	for key, value := range s.Pattern.All() {
		if key != "branch_states" || s.Metadata.Status != Completed {
			walk(value)
		}
	}
	return sums
}
