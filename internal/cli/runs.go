package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// standing is where a run stands, for programs: its state, what its pattern has
// done, and what to do next.
type standing struct {
	*workflow.State
	PatternState spec.Map[any]        `json:"pattern_state"`
	Question     *workflow.HITLState  `json:"question"`
	Pending      []workflow.HITLState `json:"pending"`
	Live         bool                 `json:"live"`
	Holder       string               `json:"holder,omitempty"`
	Estimated    []string             `json:"estimated"`
	Next         string               `json:"next,omitempty"`
}

// showRun shows where a run stands. At is a version, nil for the newest state. With
// a format it prints the graph of the run.
func (p *program) showRun(ctx context.Context, h *env, id string, at *int64, format string) error {
	opts := []holdfast.Option{holdfast.Whole()}
	if at != nil {
		opts = append(opts, holdfast.At(*at))
	} else {
		opts = append(opts, holdfast.WithTail())
	}
	s, err := h.Get(ctx, id, opts...)
	if err != nil {
		return err
	}
	if format != "" {
		g, err := workflow.RunGraph(s) //nolint:contextcheck // it reads what is there and waits for nobody
		if err != nil {
			return err
		}
		return p.out.print(graphText(g, format))
	}
	state, err := workflow.Project(s) //nolint:contextcheck // it reads what is there and waits for nobody
	if err != nil {
		return err
	}
	lease, live, err := h.Holder(ctx, id)
	if err != nil && !errors.Is(err, session.ErrNotFound) { // purged since it was read
		return err
	}
	st := standing{State: state, PatternState: state.Pattern, Pending: append([]workflow.HITLState{}, state.Open...), Live: live && at == nil, Estimated: estimated(s)}
	if st.Live {
		st.Holder = lease.Holder
	}
	if len(state.Open) > 0 {
		st.Question = &state.Open[0]
	}
	if at == nil {
		st.Next = p.nextStep(st)
	}
	if p.json {
		return p.printJSON(st)
	}
	text, err := p.runText(s, st)
	if err != nil {
		return err
	}
	return p.out.print(text)
}

// nextStep is the command that brings a run on, "" where nothing is to be done.
func (p *program) nextStep(st standing) string {
	id := st.Metadata.SessionID
	switch {
	case st.Live:
		return "holdfast sessions log " + shortID(id) + " --follow"
	case st.Metadata.Status == workflow.StatusCompleted, st.Metadata.Status == workflow.StatusCancelled:
		return ""
	case st.Question != nil:
		return p.nextRun(id) + " --hitl-response '…'"
	case len(st.Waiting) > 0:
		return respondCommand(id, st.Waiting[0])
	}
	return p.nextRun(id)
}

// runText draws a run.
func (p *program) runText(s session.Session, st standing) (string, error) {
	sp, err := specOf(s)
	if err != nil {
		return "", err
	}
	i, c := s.Info(), courseOf(s, st.Live)
	ch := chart{to: p.out, columns: p.out.width(), frame: -1, now: p.now()}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", p.out.paint(bold, oneLine(sp.Name)), p.out.paint(runColour(st.Metadata.Status), runStatus(string(st.Metadata.Status), st.Live)))
	b.WriteString(p.facts(p.runFacts(s, st)))
	if st.Metadata.Error != nil {
		b.WriteString(p.facts([][2]string{{"error", *st.Metadata.Error}}))
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(ch.lines(sp, c), "\n"))
	fmt.Fprintf(&b, "%s\n", p.out.paint(dim, "  "+ch.sum(sp, c, time.Duration(s.Workflow().Seconds*float64(time.Second)))))
	for _, path := range st.Artifacts {
		fmt.Fprintf(&b, "%s %s\n", p.out.paint(dim, "wrote"), oneLine(path))
	}
	if st.Question != nil && st.Metadata.Status == workflow.StatusPaused {
		b.WriteString(p.questionText(p.out, *st.Question))
	}
	if st.Metadata.Status == workflow.StatusCompleted && st.Final != "" {
		fmt.Fprintf(&b, "\n%s %s\n%s\n", p.out.paint(cyan, oneLine(st.Agent)), p.out.paint(dim, ago(i.UpdatedAt, p.now())), setIn(printable(st.Final)))
	}
	if st.Next != "" {
		fmt.Fprintf(&b, "\n%s %s\n", p.out.paint(dim, "next:"), st.Next)
	}
	return b.String(), nil
}

// runFacts is the head of a run.
func (p *program) runFacts(s session.Session, st standing) [][2]string {
	i := s.Info()
	list := [][2]string{{"id", i.ID}, {"pattern", string(st.Metadata.PatternType)}}
	if i.Name != "" {
		list = append(list, [2]string{"name", i.Name})
	}
	if len(st.Variables) > 0 {
		var parts []string
		for _, v := range st.Variables {
			parts = append(parts, v.Name+"="+shortened(v.Value, 40))
		}
		list = append(list, [2]string{"variables", strings.Join(parts, ", ")})
	}
	list = append(list,
		[2]string{"version", fmt.Sprint(i.Version)},
		[2]string{"created", i.CreatedAt.Local().Format(time.DateTime) + " (" + ago(i.CreatedAt, p.now()) + ")"},
		[2]string{"updated", i.UpdatedAt.Local().Format(time.DateTime) + " (" + ago(i.UpdatedAt, p.now()) + ")"})
	if i.Fork != nil {
		list = append(list, [2]string{"forked", fmt.Sprintf("from %s at version %d", shortID(i.ParentID), i.Fork.Version)})
	}
	if i.Status != session.Active {
		list = append(list, [2]string{"session", string(i.Status)})
	}
	if st.Live {
		list = append(list, [2]string{"live", "yes, by " + holderText(st.Holder)})
	} else {
		list = append(list, [2]string{"live", "no"})
	}
	return list
}

// runStatus is the status of a run as a person reads it: one that was killed
// still says that it runs.
func runStatus(status string, live bool) string {
	if status == string(workflow.StatusRunning) && !live {
		return status + " (interrupted)"
	}
	return status
}

func runColour(s workflow.Status) colour {
	switch s {
	case workflow.StatusRunning:
		return cyan
	case workflow.StatusPaused:
		return yellow
	case workflow.StatusFailed, workflow.StatusCancelled:
		return red
	case workflow.StatusCompleted:
		return green
	}
	return plain
}

func (p *program) suspendCommand() *cobra.Command {
	return &cobra.Command{
		Use: "suspend REF", Short: "keep a session and let nothing run on it", Args: cobra.ExactArgs(1),
		Long: `Keep a session and let nothing run on it until it is resumed. A workflow run that is at
work, in whichever process, lets calls in flight finish and begins nothing new; suspended a
second time it breaks them off. "sessions resume" goes on from there. With --json: the
header.`,
		RunE: p.onSession(func(ctx context.Context, h *env, i session.Info, _ []string) error {
			if i.Kind != session.KindWorkflow {
				return p.execute(ctx, h, i, holdfast.SuspendSession{}, "suspended")
			}
			pending, err := h.suspendRun(ctx, i.ID)
			if err != nil {
				return err
			}
			if pending {
				if err := h.awaitRest(ctx, i, session.StatusChanged{}.Kind()); err != nil {
					return err
				}
			}
			now, err := h.Info(ctx, i.ID)
			switch {
			case err != nil:
				return err
			case now.Status == session.Suspended || p.json:
				return p.printDone("suspended", now)
			}
			return p.out.print(fmt.Sprintf("asked %s to stop\n", title(now)))
		}),
	}
}

// awaitRest waits a moment for the change that says that a run has stopped.
func (e *env) awaitRest(ctx context.Context, i session.Info, kind string) error {
	moment, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	for entry, err := range e.Watch(moment, i.ID, i.Seq) {
		if err != nil || entry.Change.Kind() == kind {
			return err
		}
	}
	return ctx.Err()
}

func (p *program) deleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete REF", Short: "hide a session; restore brings it back", Args: cobra.ExactArgs(1),
		Long: "Hide a session; restore brings it back. A workflow run that somebody works on is not\ndeleted: cancel it first. With --json: the header.",
		RunE: p.onSession(func(ctx context.Context, h *env, i session.Info, _ []string) error {
			if lease, live, err := h.Holder(ctx, i.ID); err == nil && live && i.Kind == session.KindWorkflow {
				return &liveRunError{&session.BusyError{ID: i.ID, Holder: lease.Holder, Until: lease.Until}}
			}
			return p.execute(ctx, h, i, holdfast.DeleteSession{}, "deleted")
		}),
	}
	cmd.Flags().BoolP("force", "f", false, "accepted and without effect: nothing is asked, and restore brings it back")
	return cmd
}

// liveRunError is a run that cannot be deleted, because somebody works on it.
type liveRunError struct{ busy *session.BusyError }

func (e *liveRunError) Error() string { return e.busy.Error() }
func (e *liveRunError) Unwrap() error { return e.busy }
func (e *liveRunError) hint() string {
	return "end it first: holdfast sessions cancel " + shortID(e.busy.ID)
}

// cancelRun ends a workflow run for good.
func (p *program) cancelRun(ctx context.Context, e *env, i session.Info) error {
	pending, err := e.cancelRun(ctx, i.ID)
	if err == nil && pending {
		err = e.awaitRest(ctx, i, session.WorkflowRowChanged{}.Kind())
	}
	if err != nil {
		return err
	}
	now, err := e.Info(ctx, i.ID)
	switch {
	case err != nil:
		return err
	case statusOf(now) == string(workflow.StatusCancelled):
		return p.printDone("cancelled", now)
	}
	return p.printResult(now, "asked %s to stop", title(now))
}

func (p *program) cleanupCommand() *cobra.Command {
	var (
		days       int
		keep, drop bool
		force      bool
	)
	cmd := &cobra.Command{
		Use: "cleanup", Short: "delete workflow runs that were not touched for days", Args: cobra.NoArgs,
		Long: `Delete workflow runs that were not touched for some days; completed ones are kept unless
--no-keep-completed is said. Runs that somebody works on are never deleted. "sessions
restore" brings one back; "sessions sweep --purge" removes for good. With --json: the ids.`,
		RunE: p.inEnv(func(ctx context.Context, h *env, _ []string) error {
			if days < 0 {
				return &session.InvalidError{Field: "max-age-days", Reason: "it is negative"}
			}
			old, err := h.oldRuns(ctx, p.now().Add(-time.Duration(days)*24*time.Hour), keep && !drop)
			if err != nil {
				return err
			}
			if err := p.confirm(ctx, force || len(old) == 0, fmt.Sprintf("Delete %s?", countOf(len(old), "run"))); err != nil {
				return err
			}
			return p.deleteRuns(ctx, h, old)
		}),
	}
	f := cmd.Flags()
	f.IntVar(&days, "max-age-days", 7, "older than `N` days")
	f.BoolVar(&keep, "keep-completed", true, "keep those that are completed")
	f.BoolVar(&drop, "no-keep-completed", false, "delete completed ones too")
	f.BoolVarP(&force, "force", "f", false, "do not ask")
	return cmd
}

// oldRuns are the runs that were not touched since, nobody working on them.
func (e *env) oldRuns(ctx context.Context, since time.Time, keepCompleted bool) (session.Infos, error) {
	q := store.Query{Kinds: []session.Kind{session.KindWorkflow}, UpdatedBefore: since, Limit: 1000}
	var old session.Infos
	for {
		page, err := e.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, i := range page.Items {
			if i.Workflow == nil || keepCompleted && i.Workflow.Status == string(workflow.StatusCompleted) {
				continue
			}
			_, live, err := e.Holder(ctx, i.ID)
			if err != nil && !errors.Is(err, session.ErrNotFound) {
				return nil, err
			}
			if !live {
				old = append(old, i)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return old, nil
		}
	}
}

// deleteRuns deletes them and says which. One that somebody has begun to work on
// meanwhile is left alone.
func (p *program) deleteRuns(ctx context.Context, h *env, old session.Infos) error {
	ids := []string{}
	for _, i := range old {
		_, err := h.Execute(ctx, i.ID, holdfast.DeleteSession{}, holdfast.OnBusy(holdfast.Reject), holdfast.IfVersion(i.Version))
		switch {
		case errors.Is(err, session.ErrBusy), errors.Is(err, session.ErrConflict):
			continue
		case err != nil:
			return err
		}
		ids = append(ids, i.ID)
	}
	return p.printSwept(ids, holdfast.Retention{})
}
