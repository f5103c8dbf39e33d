package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/session"
)

// runOptions is what a command line wants of a workflow run.
type runOptions struct {
	vars        []string
	ask         bool
	out         string
	force       bool
	resume      string
	autoResume  bool
	answer      *string // nil: none was given
	target      string
	interactive bool
	strict      bool
	accept      bool
	noWait      bool
	redo        string // a unit
	reopen      bool
	name        string // of the session
	forget      bool   // the session is not kept
	paths       []string
	trace       bool
	model       string // in place of those of the spec
	verbose     bool
	stop        <-chan struct{} // closed when the run is to stop in order
}

func (p *program) runCommand() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use: "run [SPEC]", Short: "run a workflow: several agents in a pattern, as one session", Args: cobra.MaximumNArgs(1),
		Long: `Run a workflow spec: several agents in a pattern, as one session. Everything a unit of it
does is saved before anything relies on it. Interrupt it with Ctrl-C, kill it, let it fail:
with --resume it goes on where it was, and nothing that was answered is asked again.

  holdfast run SPEC --var topic=tea       start a run
  holdfast run --resume ID                go on with one
  holdfast run --resume ID --hitl-response yes
                                          answer the question it waits with
  holdfast run SPEC --auto-resume         go on with the last run of this spec, or start one
  holdfast run --resume ID --redo step/1  do a unit again, and everything after it

The first Ctrl-C lets calls in flight finish and begins nothing new; the second breaks off.
A run of a server (--server) goes on there; Ctrl-C stops looking at it.

The final response goes to standard output, everything else to standard error. At a
terminal that is a drawing of the run as it goes on. With --json standard error has the
events, one per line, and standard output {session_id, status, pattern, agent,
last_response, question, artifacts, usage, exit_code, error}.

A run that waits for a person ends with exit code 19 and says how to answer.`,
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.vars, "var", nil, "a value for an input of the spec, `NAME=VALUE`; may be repeated")
	f.BoolVarP(&o.ask, "ask", "a", false, "ask for the required inputs that have no value")
	f.StringVarP(&o.resume, "resume", "r", "", "go on with the run `ID`")
	f.BoolVar(&o.autoResume, "auto-resume", false, "go on with the last unfinished run of SPEC, if there is one")
	f.StringVar(&o.name, "name", "", "`NAME` of the session, by which it can be resumed")
	save := f.Bool("save-session", true, "keep the session in the store")
	f.BoolVar(&o.forget, "no-save-session", false, "run in memory and keep nothing")
	p.runFlags(f, o)
	cmd.PreRun = func(*cobra.Command, []string) { p.AgentsRun = true }
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.forget = o.forget || !*save
		o.given(cmd.Flags())
		path := ""
		if len(args) > 0 {
			path = args[0]
		}
		if err := o.check(path); err != nil {
			return err
		}
		ctx, stop := p.Interrupts.WatchInOrder(cmd.Context(), o.askToStop(p))
		defer stop()
		return p.runSpec(ctx, path, o)
	}
	return cmd
}

// askToStop returns what the first Ctrl-C does: the run stops in order.
func (o *runOptions) askToStop(p *program) func() {
	stop := make(chan struct{})
	o.stop = stop
	return func() {
		close(stop)
		if url, _, _ := p.FindServer(); url == "" && !p.JSON {
			p.Err.Notice("waiting for calls in flight; Ctrl-C again breaks them off")
		}
	}
}

// runFlags are the flags of every command that goes on with runs.
func (p *program) runFlags(f *pflag.FlagSet, o *runOptions) {
	f.StringVar(&o.out, "out", "artifacts", "`DIR` for the files that the run writes")
	f.BoolVar(&o.force, "force", false, "replace files that are there")
	f.String("hitl-response", "", "the answer `TEXT` to the question that the run waits with")
	f.StringVar(&o.target, "hitl-target", "", "the `BRANCH` whose question is answered, where several wait")
	f.BoolVarP(&o.interactive, "interactive", "i", false, "ask questions at the terminal, here and now")
	f.BoolVar(&o.strict, "strict", false, "refuse to go on when the spec's files have changed")
	f.BoolVar(&o.accept, "accept-changes", false, "go on with the spec's files as they are now, where nothing that is done depends on the change")
	f.BoolVar(&o.noWait, "no-wait", false, "do not wait for the end of a lease whose holder is silent")
	f.StringVar(&o.redo, "redo", "", "do the `UNIT` again, also one that is done, and everything after it")
	f.BoolVar(&o.reopen, "reopen", false, "go on also with a run that was cancelled")
	f.StringArrayVar(&o.paths, "allow-path", nil, "let file tools reach `DIR` besides the working directory; may be repeated")
	f.Bool("bypass-tool-consent", false, "accepted and without effect: tools never ask")
	f.StringVar(&o.model, "model", "", "ask the model `NAME`, such as openai/gpt-4.1, in place of those of the spec; for this command only")
	f.BoolVar(&o.trace, "trace", false, "write the course of the run to NAME-trace.json, and show it to artifacts")
	f.BoolVar(&p.debug, "debug", false, "as --verbose, and a stack when the program itself fails")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show what each unit answered")
}

// given reads the flags that differ when they are empty and when they are absent.
func (o *runOptions) given(f *pflag.FlagSet) {
	if flag := f.Lookup("hitl-response"); flag.Changed {
		text := flag.Value.String()
		o.answer = &text
	}
}

// check refuses what does not go together.
func (o *runOptions) check(path string) error {
	resumes := o.resume != "" || o.autoResume
	for _, rule := range []struct {
		broken        bool
		field, reason string
	}{
		{(path == "") == (o.resume == ""), "run", "give a SPEC or --resume ID, one of the two"},
		{o.resume != "" && o.autoResume, "auto-resume", "it looks for the run by its SPEC; --resume names one"},
		{o.resume != "" && len(o.vars) > 0, "var", "a run keeps the values it was started with"},
		{o.resume != "" && o.ask, "ask", "a run keeps the values it was started with"},
		{o.answer != nil && !resumes, "hitl-response", "it needs --resume ID or --auto-resume: a new run has no question yet"},
		{o.target != "" && o.answer == nil, "hitl-target", "it says whom --hitl-response answers"},
		{o.strict && o.accept, "strict", "give --strict or --accept-changes, one of the two"},
		{(o.strict || o.accept) && !resumes, "spec", "--strict and --accept-changes are for a run that is resumed"},
		{(o.redo != "" || o.reopen) && o.resume == "", "redo", "--redo and --reopen are for a run that is resumed: give --resume ID"},
		{o.redo != "" && o.answer != nil, "redo", "give --redo or --hitl-response, one of the two"},
		{o.name != "" && o.resume != "", "name", "a run keeps its name; see: holdfast sessions rename"},
		{o.forget && resumes, "no-save-session", "a run that is resumed is in the store"},
	} {
		if rule.broken {
			return &session.InvalidError{Field: rule.field, Reason: rule.reason}
		}
	}
	return nil
}

// runSpec starts a run, or goes on with one.
func (p *program) runSpec(ctx context.Context, path string, o *runOptions) error {
	j, err := p.newJob(o)
	if err == nil {
		err = j.check()
	}
	if err != nil {
		return err
	}
	if o.resume == "" {
		err = j.load(ctx, path)
	}
	if err == nil {
		err = p.inStore(ctx, o.forget, func(h *setup.Env) error { return j.do(ctx, h) })
	}
	return j.tell(err)
}

// inStore opens the store, or one in memory for what is not kept.
func (p *program) inStore(ctx context.Context, forget bool, work func(*setup.Env) error) error {
	if !forget {
		return p.WithEnv(ctx, work)
	}
	if url, _, err := p.FindServer(); err != nil || url != "" {
		return cmp.Or(err, error(&session.InvalidError{Field: "no-save-session", Reason: "the server works on the run, and keeps it"}))
	}
	h, err := p.OpenEnvAt(ctx, setup.StoreURL{Scheme: "inmem"})
	if err != nil {
		return err
	}
	err = work(h)
	if closed := h.Close(); err == nil {
		err = closed
	}
	return err
}

// resumeCommand opens a session again; a workflow run goes on.
func (p *program) resumeCommand() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use: "resume REF", Short: "go on with a workflow run; open any other session again that was suspended, completed or failed", Args: cobra.ExactArgs(1),
		Long: `Go on with a workflow run, as "holdfast run --resume" does and with the same flags. Any
other session that was suspended, completed or failed is opened again. With --json: the
result of the run, or the header of the session.

` + refHelp,
	}
	p.runFlags(cmd.Flags(), o)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.resume = args[0]
		o.given(cmd.Flags())
		if err := o.check(""); err != nil {
			return err
		}
		own := "" // a flag that only runs take
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if cmd.InheritedFlags().Lookup(f.Name) == nil {
				own = f.Name
			}
		})
		ctx, stop := p.Interrupts.WatchInOrder(cmd.Context(), o.askToStop(p))
		defer stop()
		return p.resumeAny(ctx, o, own)
	}
	return cmd
}

func (p *program) resumeAny(ctx context.Context, o *runOptions, flag string) error {
	j, err := p.newJob(o)
	if err != nil {
		return err
	}
	run := false
	err = p.WithEnv(ctx, func(h *setup.Env) error {
		i, err := h.Resolve(ctx, o.resume)
		if err != nil {
			return err
		}
		if run = i.Kind == session.KindWorkflow; run {
			if err := j.check(); err != nil {
				return err
			}
			return j.do(ctx, h)
		}
		if flag != "" {
			return &session.InvalidError{Field: flag, Reason: fmt.Sprintf("session %s is not a workflow run", display.ShortID(i.ID))}
		}
		return p.execute(ctx, h, i, holdfast.ResumeSession{}, "resumed")
	})
	if run {
		return j.tell(err)
	}
	return err
}
