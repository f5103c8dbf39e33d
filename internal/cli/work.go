package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/node"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/worker"
	"github.com/holdfast-dev/holdfast/workflow"
)

// slots is how much a process works on at once.
type slots struct {
	turns, tasks, runs, tenant int
	drain                      time.Duration
}

func (s *slots) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&s.turns, "turns", 32, "how many chats to work on at once")
	f.IntVar(&s.tasks, "tasks", 4, "how many tasks to work on at once")
	f.IntVar(&s.runs, "runs", 8, "how many workflow runs to work on at once")
	f.IntVar(&s.tenant, "tenant-limit", 0, "how many sessions of one tenant to work on at once (default: no limit)")
	f.DurationVar(&s.drain, "drain", 30*time.Second, "how long work may go on at the end")
}

// addTraceFlag lets a command send spans.
func (p *program) addTraceFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.OTLP, "otlp-endpoint", p.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "send a span for each turn, answer and tool call to the collector at `URL`")
}

func (p *program) workCommand() *cobra.Command {
	var s slots
	var quiet bool
	cmd := &cobra.Command{
		Use: "work", Short: "work on what waits in a store, without HTTP", Args: cobra.NoArgs,
		Long: `Work on what waits in a store, in all tenants, until Ctrl-C or SIGTERM: interrupted
turns, messages and responses in inboxes, tasks that want to be resumed, workflow runs,
questions whose time is over, and schedules. "holdfast serve" does the same beside its
requests, unless it has --no-work.

Any number of processes may work on one store. What one leaves behind, because it ends or
is killed, another takes up.`,
		PreRun: func(*cobra.Command, []string) { p.AgentsRun = true },
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
			var c server.Config
			if err := p.addWork(e, &c); err != nil {
				return err
			}
			self := p.newSelf()
			w, err := p.newWorker(e, c, s, self, p.RequestLog(quiet))
			if err != nil {
				return err
			}
			leave := p.beNode(ctx, e, self)
			defer leave()
			p.Err.Status("working on what waits in %s", e.URL)
			w.Run(ctx)
			p.Err.Status("ended")
			return nil
		}),
	}
	s.addFlags(cmd)
	p.addTraceFlag(cmd)
	cmd.Flags().BoolVar(&quiet, "quiet", false, "do not log what fails")
	return p.AddSettings(p.AddPermissionFlags(cmd))
}

// newWorker makes a worker for everything that a server with this configuration
// can work on.
func (p *program) newWorker(e *setup.Env, c server.Config, s slots, self *node.Self, log *slog.Logger) (*worker.Worker, error) {
	for name, n := range map[string]int{"turns": s.turns, "tasks": s.tasks, "runs": s.runs} {
		if n < 1 {
			return nil, &session.InvalidError{Field: name, Reason: fmt.Sprintf("%d is less than 1", n)}
		}
	}
	kinds := map[session.Kind]worker.Kind{session.KindChat: worker.Chats(s.turns)}
	if c.Tasks != nil {
		kinds[session.KindTask] = worker.Tasks(s.tasks, c.Tasks.Executor)
	}
	if c.Runs != nil {
		kinds[session.KindWorkflow] = worker.Runs(s.runs, func(rt *holdfast.Runtime) (workflow.ResumeOptions, error) {
			host, err := c.Runs.Host(rt)
			return workflow.ResumeOptions{Host: host}, err
		})
	}
	w, err := worker.New(worker.Config{
		Runtime: e.Runtime, Store: e.Store, Kinds: kinds, TenantLimit: s.tenant, Drain: s.drain, Paused: self.Draining,
		Fire: schedule.New(e.Runtime, p.Now, log).Fire, Logger: log, Now: p.Now,
	})
	if err == nil {
		self.Loads = w.Loads
	}
	return w, err
}
