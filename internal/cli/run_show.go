package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
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
func (p *program) showRun(ctx context.Context, h *setup.Env, id string, at *int64, format string) error {
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
		return p.Out.Print(graphText(g, format))
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
	if p.JSON {
		return p.PrintJSON(st)
	}
	text, err := p.runText(s, st)
	if err != nil {
		return err
	}
	return p.Out.Print(text)
}

// nextStep is the command that brings a run on, "" where nothing is to be done.
func (p *program) nextStep(st standing) string {
	id := st.Metadata.SessionID
	switch {
	case st.Live:
		return "holdfast sessions log " + display.ShortID(id) + " --follow"
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
	sp, err := display.SpecOf(s)
	if err != nil {
		return "", err
	}
	i, c := s.Info(), display.RunStateOf(s, st.Live)
	ch := display.RunDrawing{To: p.Out, Columns: p.Out.Width(), Frame: -1, Now: p.Now()}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", p.Out.Paint(terminal.Bold, terminal.OneLine(sp.Name)), p.Out.Paint(display.RunColour(st.Metadata.Status), display.RunStatus(string(st.Metadata.Status), st.Live)))
	b.WriteString(p.facts(p.runFacts(s, st)))
	if st.Metadata.Error != nil {
		b.WriteString(p.facts([][2]string{{"error", *st.Metadata.Error}}))
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(ch.Lines(sp, c), "\n"))
	fmt.Fprintf(&b, "%s\n", p.Out.Paint(terminal.Dim, "  "+ch.Sum(sp, c, time.Duration(s.Workflow().Seconds*float64(time.Second)))))
	for _, path := range st.Artifacts {
		fmt.Fprintf(&b, "%s %s\n", p.Out.Paint(terminal.Dim, "wrote"), terminal.OneLine(path))
	}
	if st.Question != nil && st.Metadata.Status == workflow.StatusPaused {
		b.WriteString(p.questionText(p.Out, *st.Question))
	}
	if st.Metadata.Status == workflow.StatusCompleted && st.Final != "" {
		fmt.Fprintf(&b, "\n%s %s\n%s\n", p.Out.Paint(terminal.Cyan, terminal.OneLine(st.Agent)), p.Out.Paint(terminal.Dim, terminal.Ago(i.UpdatedAt, p.Now())), display.SetIn(terminal.Printable(st.Final)))
	}
	if st.Next != "" {
		fmt.Fprintf(&b, "\n%s %s\n", p.Out.Paint(terminal.Dim, "next:"), st.Next)
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
			parts = append(parts, v.Name+"="+terminal.Shortened(v.Value, 40))
		}
		list = append(list, [2]string{"variables", strings.Join(parts, ", ")})
	}
	list = append(list,
		[2]string{"version", fmt.Sprint(i.Version)},
		[2]string{"created", i.CreatedAt.Local().Format(time.DateTime) + " (" + terminal.Ago(i.CreatedAt, p.Now()) + ")"},
		[2]string{"updated", i.UpdatedAt.Local().Format(time.DateTime) + " (" + terminal.Ago(i.UpdatedAt, p.Now()) + ")"})
	if i.Fork != nil {
		list = append(list, [2]string{"forked", fmt.Sprintf("from %s at version %d", display.ShortID(i.ParentID), i.Fork.Version)})
	}
	if i.Status != session.Active {
		list = append(list, [2]string{"session", string(i.Status)})
	}
	if st.Live {
		list = append(list, [2]string{"live", "yes, by " + display.HolderText(st.Holder)})
	} else {
		list = append(list, [2]string{"live", "no"})
	}
	return list
}

func (p *program) suspendCommand() *cobra.Command {
	return &cobra.Command{
		Use: "suspend REF", Short: "keep a session and let nothing run on it", Args: cobra.ExactArgs(1),
		Long: `Keep a session and let nothing run on it until it is resumed. A workflow run that is at
work, in whichever process, lets calls in flight finish and begins nothing new; suspended a
second time it breaks them off. "sessions resume" goes on from there. With --json: the
header.`,
		RunE: p.OnSession(func(ctx context.Context, h *setup.Env, i session.Info, _ []string) error {
			if i.Kind != session.KindWorkflow {
				return p.execute(ctx, h, i, holdfast.SuspendSession{}, "suspended")
			}
			pending, err := h.SuspendRun(ctx, i.ID)
			if err != nil {
				return err
			}
			if pending {
				if err := h.AwaitRest(ctx, i, session.StatusChanged{}.Kind()); err != nil {
					return err
				}
			}
			now, err := h.Info(ctx, i.ID)
			switch {
			case err != nil:
				return err
			case now.Status == session.Suspended || p.JSON:
				return p.printDone("suspended", now)
			}
			return p.Out.Print(fmt.Sprintf("asked %s to stop\n", display.Title(now)))
		}),
	}
}

func (p *program) deleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete REF", Short: "hide a session; restore brings it back", Args: cobra.ExactArgs(1),
		Long: "Hide a session; restore brings it back. A workflow run that somebody works on is not\ndeleted: cancel it first. With --json: the header.",
		RunE: p.OnSession(func(ctx context.Context, h *setup.Env, i session.Info, _ []string) error {
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
	return "end it first: holdfast sessions cancel " + display.ShortID(e.busy.ID)
}

// cancelRun ends a workflow run for good.
func (p *program) cancelRun(ctx context.Context, e *setup.Env, i session.Info) error {
	pending, err := e.CancelRun(ctx, i.ID)
	if err == nil && pending {
		err = e.AwaitRest(ctx, i, session.WorkflowRowChanged{}.Kind())
	}
	if err != nil {
		return err
	}
	now, err := e.Info(ctx, i.ID)
	switch {
	case err != nil:
		return err
	case display.StatusOf(now) == string(workflow.StatusCancelled):
		return p.printDone("cancelled", now)
	}
	return p.PrintResult(now, "asked %s to stop", display.Title(now))
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
		RunE: p.InEnv(func(ctx context.Context, h *setup.Env, _ []string) error {
			if days < 0 {
				return &session.InvalidError{Field: "max-age-days", Reason: "it is negative"}
			}
			old, err := h.OldRuns(ctx, p.Now().Add(-time.Duration(days)*24*time.Hour), keep && !drop)
			if err != nil {
				return err
			}
			if err := p.Confirm(ctx, force || len(old) == 0, fmt.Sprintf("Delete %s?", terminal.CountOf(len(old), "run"))); err != nil {
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

// deleteRuns deletes them and says which. One that somebody has begun to work on
// meanwhile is left alone.
func (p *program) deleteRuns(ctx context.Context, h *setup.Env, old session.Infos) error {
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
