package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) logCommand() *cobra.Command {
	var (
		follow bool
		after  int64
	)
	cmd := &cobra.Command{
		Use: "log REF", Short: "print every change of a session", Args: cobra.ExactArgs(1),
		Long: "Print every change of a session, oldest first. With --json: one record per line.\nIt needs a store with a log.",
		RunE: p.onSession(func(ctx context.Context, e *env, i session.Info, _ []string) error {
			entries := e.Log
			if follow {
				entries = e.Watch
			}
			for entry, err := range entries(ctx, i.ID, after) {
				if err != nil {
					return err
				}
				if err := p.printEntry(entry); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for further changes, until Ctrl-C")
	cmd.Flags().Int64Var(&after, "after", 0, "only changes after number `SEQ`")
	return cmd
}

func (p *program) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff REF FROM TO", Short: "print the changes between two versions", Args: cobra.ExactArgs(3),
		Long: "Print the changes that lead from one version to a later one. With --json: an array\nof records. It needs a store with a log.",
		RunE: p.onSession(func(ctx context.Context, e *env, i session.Info, args []string) error {
			var versions [2]int64
			for n, arg := range args {
				v, err := parseVersion(arg)
				if err != nil {
					return err
				}
				versions[n] = v
			}
			entries, err := e.Diff(ctx, i.ID, versions[0], versions[1])
			if err != nil {
				return err
			}
			if p.json {
				if entries == nil {
					entries = []session.LogEntry{}
				}
				return p.printJSON(entries)
			}
			for _, entry := range entries {
				if err := p.printEntry(entry); err != nil {
					return err
				}
			}
			if len(entries) == 0 {
				p.err.status("the versions are the same")
			}
			return nil
		}),
	}
}

// printEntry prints one change: its number, the version it became part of,
// when, what kind, and its most important part.
func (p *program) printEntry(e session.LogEntry) error {
	if p.json {
		return p.printJSONLine(e)
	}
	version := "v" + strconv.FormatInt(e.Version, 10)
	switch {
	case e.Discarded:
		version = "✗"
	case e.Version == 0:
		version = "open"
	}
	return p.out.print(fmt.Sprintf("%s %s %s  %s %s\n",
		p.out.paint(cyan, fmt.Sprintf("%5d", e.Seq)), p.out.paint(dim, fmt.Sprintf("%-5s", version)),
		p.out.paint(dim, e.At.Local().Format(time.DateTime)), p.out.paint(bold, fmt.Sprintf("%-19s", e.Change.Kind())), changeText(e.Change)))
}

// changeText describes a change in a few words.
func changeText(c session.Change) string {
	switch c := c.(type) {
	case session.SessionCreated:
		return oneLine(c.Header.AgentName)
	case session.SessionForked:
		return fmt.Sprintf("from %s at version %d", shortID(c.ParentID), c.Fork.Version)
	case session.SessionRewound:
		return fmt.Sprintf("to version %d", c.Version)
	case session.MessageAdded:
		text := c.Message.Content.Text()
		for _, call := range c.Message.ToolCalls {
			text += " → " + call.Name
		}
		if r := c.Message.ToolResult; r != nil {
			text = "← " + r.ToolName + " " + r.Content
		}
		return string(c.Message.Role) + ": " + shortened(text, 80)
	}
	if text, ok := runChangeText(c); ok {
		return text
	}
	if text, ok := turnChangeText(c); ok {
		return text
	}
	return shortened(changeData(c), 80)
}

// turnChangeText describes a change of a turn, or of a session's header.
func turnChangeText(c session.Change) (text string, ok bool) {
	said := func(parts ...string) (string, bool) {
		return oneLine(strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " · ")), true
	}
	switch c := c.(type) {
	case session.ExecutionStarted, session.ExecutionWaiting:
		return "", true
	case session.ExecutionContinued:
		switch {
		case c.Recovery:
			return "by another process", true
		case c.Retry:
			return "tried again", true
		}
		return "", true
	case session.InferenceAnswered:
		return said(c.Model, spentText(c.Usage, c.Cost))
	case session.InferenceFailed:
		return said(c.Model, failureText(c.Errors))
	case session.ToolStarted:
		return said(c.ToolName)
	case session.ToolFinished:
		failed := ""
		if c.IsError {
			failed = "failed"
		}
		return said(c.ToolName, failed)
	case session.StepFinished:
		return said(strings.ReplaceAll(string(c.Type), "_", " "), failureText(c.Errors))
	case session.ExecutionFinished:
		stopped := ""
		if c.Stop != nil && string(c.Stop.Reason) != string(c.Status) {
			stopped = cmp.Or(c.Stop.Message, string(c.Stop.Reason))
		}
		return said(string(c.Status), stopped, failureText(c.Errors))
	case session.CallPending:
		return said(string(c.Call.Kind), c.Call.Tool, shortened(c.Call.Prompt, 80))
	case session.CallResponded:
		return said(string(c.Response.Action), shortened(c.Response.Text, 80))
	case session.StatusChanged:
		return said(string(c.Status), c.Reason)
	case session.NameChanged:
		return said(c.Name)
	case session.ModelChanged:
		return said(c.Model)
	case session.MetadataWritten:
		return said(c.Key, shortened(string(c.Value), 80))
	case session.MetadataRemoved:
		return said(c.Key)
	case session.VariableStored:
		return said(c.Key, shortened(string(c.Value), 80))
	case session.VariableDeleted:
		return said(c.Key)
	case session.InboxTaken:
		return said(strings.ReplaceAll(c.ItemKind, "_", " "))
	}
	return "", false
}

// failureText returns the last of some failures, "" for none.
func failureText(all []session.Failure) string {
	if len(all) == 0 {
		return ""
	}
	return shortened(all[len(all)-1].Message, 80)
}

// runChangeText describes a change of a workflow run.
func runChangeText(c session.Change) (text string, ok bool) {
	of := func(unit, agent, more string) (string, bool) {
		for _, part := range []string{agent, more} {
			if part != "" {
				unit += " · " + part
			}
		}
		return oneLine(unit), true
	}
	switch c := c.(type) {
	case session.WorkflowRowChanged:
		return of(c.Workflow.Status, "", c.Workflow.Error)
	case session.UnitStarted:
		return of(c.Unit, c.Agent, "")
	case session.UnitFinished:
		return of(c.Unit, c.Agent, "")
	case session.UnitFailed:
		return of(c.Unit, c.Agent, shortened(c.Error.Message, 80))
	case session.UnitsReset:
		return of(strings.Join(c.Units, ", "), "", "")
	case session.UnitAdvanced:
		if answered, ok := c.Change.(session.InferenceAnswered); ok {
			return of(c.Unit, "", spentText(answered.Usage, answered.Cost))
		}
		return of(c.Unit, "", c.Change.Kind())
	case session.CallPending:
		if c.Call.Unit != "" {
			return c.Call.Unit + ": " + shortened(cmp.Or(c.Call.Prompt, c.Call.Tool), 80), true
		}
	case session.CallResponded:
		if c.Unit != "" {
			return c.Unit + ": " + shortened(cmp.Or(c.Response.Text, string(c.Response.Action)), 80), true
		}
	case session.QuestionPut:
		return c.Question.Unit + ": " + shortened(c.Question.Prompt, 80), true
	case session.QuestionAnswered:
		return c.Unit + ": " + shortened(c.Response, 80), true
	case session.ArtifactWritten:
		return of(c.Path, "", "")
	}
	return "", false
}

// changeData returns a change as JSON, "" where it says nothing more than its kind.
func changeData(c session.Change) string {
	raw, err := session.JSON(c)
	if err != nil || string(raw) == "{}" {
		return ""
	}
	return string(raw)
}
