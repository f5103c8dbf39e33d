package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) schedulesCommand() *cobra.Command {
	return group("schedules", "send messages at given times", p.schedulesCreateCommand(), p.schedulesListCommand(),
		p.schedulesPauseCommand("pause ID", "stop a schedule for a while", true),
		p.schedulesPauseCommand("resume ID", "let a schedule go on; what passed meanwhile is not sent", false),
		p.schedulesDeleteCommand())
}

// schedules are the verbs on schedules that commands need. A store has them, and
// so has the client of a server.
type schedules interface {
	Create(ctx context.Context, want schedule.Schedule, actor string) (schedule.Schedule, error)
	List(ctx context.Context, tenant string) ([]schedule.Schedule, error)
	Pause(ctx context.Context, tenant, id string, paused bool, actor string) (schedule.Schedule, error)
	Delete(ctx context.Context, tenant, id, actor string) error
}

func (p *program) schedules(e *setup.Env) schedules {
	if e.Server != nil {
		return e.Server.Schedules()
	}
	return schedule.New(e.Runtime, p.Now, nil)
}

func (p *program) schedulesCreateCommand() *cobra.Command {
	var want schedule.Schedule
	var to, agent, catchUp string
	cmd := &cobra.Command{
		Use: "create TEXT", Short: "send a message to a session, or to a new one each time", Args: cobra.ExactArgs(1),
		Long: `Send a message at the times of a cron expression: minute, hour, day of month, month and
day of week, or @hourly, @daily, @weekly, @monthly.

  holdfast schedules create --cron "0 7 * * mon-fri" --zone Europe/Berlin --session news "What is new?"
  holdfast schedules create --cron @daily --agent reporter "Write the report."

A process that works on the store sends it ("holdfast work" or "holdfast serve"), once,
however many there are. --catch-up says what to do about times that passed while there
was none: skip what is more than a minute late, send one for all of them, or all.`,
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, args []string) error {
			if (to == "") == (agent == "") {
				return &session.InvalidError{Field: "schedule", Reason: "give --session REF or --agent NAME, one of the two"}
			}
			want := want
			want.Tenant, want.UserID, want.Text, want.CatchUp = e.Tenant, p.User, args[0], schedule.CatchUp(catchUp)
			if to != "" {
				info, err := e.Resolve(ctx, to)
				if err != nil {
					return err
				}
				want.SessionID = info.ID
			}
			if agent != "" {
				def, err := e.Agent(ctx, agent)
				if err != nil {
					return err
				}
				want.Agent = &def
			}
			made, err := p.schedules(e).Create(ctx, want, "cli")
			if err != nil {
				return err
			}
			return p.PrintResult(made, "%s · next at %s", made.ID, p.localTime(made.Next, made.Zone))
		}),
	}
	f := cmd.Flags()
	f.StringVar(&want.Cron, "cron", "", "the times as a cron `EXPRESSION`")
	f.StringVar(&want.Zone, "zone", "UTC", "the time `ZONE` of the expression, such as Europe/Berlin")
	f.StringVar(&catchUp, "catch-up", string(schedule.Skip), "what to do about times that passed: skip, one or all")
	f.StringVar(&to, "session", "", "the session `REF` that gets the message")
	f.StringVar(&agent, "agent", "", "the `AGENT` of a new session for each message")
	f.StringVar(&want.ID, "id", "", "the `ID` of the schedule (default: a random one)")
	f.StringVar(&want.Label, "label", "", "a `TEXT` to tell schedules apart; new sessions get it as their name")
	f.StringVar(&p.User, "user", "", "messages are sent for the user `NAME`")
	return cmd
}

// localTime is a time in the zone of a schedule.
func (p *program) localTime(at time.Time, zone string) string {
	if loc, err := time.LoadLocation(zone); err == nil {
		at = at.In(loc)
	}
	return at.Format("2006-01-02 15:04 MST")
}

func (p *program) schedulesListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "list the schedules of a tenant", Args: cobra.NoArgs,
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
			list, err := p.schedules(e).List(ctx, e.Tenant)
			if err != nil {
				return err
			}
			if p.JSON {
				return p.PrintJSON(list)
			}
			if len(list) == 0 {
				p.Err.Status("there is no schedule; make one with: holdfast schedules create")
				return nil
			}
			t := terminal.Table{Head: []string{"ID", "WHEN", "TO", "NEXT", "TEXT"}, Flex: 4}
			for _, s := range list {
				to, next := display.ShortID(s.SessionID), p.localTime(s.Next, s.Zone)
				if s.Agent != nil {
					to = "new " + s.Agent.Name
				}
				if s.Paused {
					next = "paused"
				}
				text := s.Text
				if s.Problem != "" {
					text = "problem: " + s.Problem
				}
				t.Add(terminal.Styled(s.ID, terminal.Cyan), terminal.Styled(terminal.OneLine(strings.TrimSpace(s.Cron+" "+s.Zone)), terminal.Plain), terminal.Styled(terminal.OneLine(to), terminal.Plain), terminal.Styled(next, terminal.Plain), terminal.Styled(terminal.OneLine(text), terminal.Plain))
			}
			return p.Out.Print(t.Layout(p.Out))
		}),
	}
}

func (p *program) schedulesPauseCommand(use, short string, pause bool) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, args []string) error {
			s, err := p.schedules(e).Pause(ctx, e.Tenant, args[0], pause, "cli")
			if err != nil {
				return err
			}
			if pause {
				return p.PrintResult(s, "paused %s", s.ID)
			}
			return p.PrintResult(s, "%s · next at %s", s.ID, p.localTime(s.Next, s.Zone))
		}),
	}
}

func (p *program) schedulesDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete ID", Aliases: []string{"rm"}, Short: "remove a schedule", Args: cobra.ExactArgs(1),
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, args []string) error {
			if err := p.schedules(e).Delete(ctx, e.Tenant, args[0], "cli"); err != nil {
				return err
			}
			return p.PrintResult(struct {
				ID string `json:"id"`
			}{args[0]}, "deleted %s", args[0])
		}),
	}
}
