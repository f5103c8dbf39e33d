package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/catalog"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) modelsCommand() *cobra.Command {
	return group("models", "list models and check that they answer", p.modelsListCommand(), p.modelsCheckCommand())
}

func (p *program) modelsListCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "list providers, what they need, and models that are known", Args: cobra.NoArgs,
		Long: `List providers of models, whether they are set up and by which variable, and the models
whose lengths and prices are known. A provider may have others: any name of the form
provider/model can be used. No provider is called; "models check" does that.

Prices are in US dollars for a million tokens. With --server: the models that the server can
use.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if e, err := p.OpenServer(); e != nil || err != nil {
				return p.listServerModels(cmd.Context(), e, err)
			}
			c, err := p.Catalog()
			if err != nil {
				return err
			}
			return p.printOffer(setup.OfferOf(c, all || p.JSON))
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also list models of providers that are not set up")
	return cmd
}

func (p *program) listServerModels(ctx context.Context, e *setup.Env, err error) error {
	if err != nil {
		return err
	}
	names, err := e.Server.Models(ctx)
	if err != nil {
		return err
	}
	if p.JSON {
		return p.PrintJSON(names)
	}
	return p.Out.Print(strings.Join(append(names, ""), "\n"))
}

func (p *program) printOffer(o setup.ModelOffer) error {
	if p.JSON {
		return p.PrintJSON(o)
	}
	providers := terminal.Table{Head: []string{"PROVIDER", "STATUS", "ADDRESS"}, Flex: 2}
	for _, provider := range o.Providers {
		status := terminal.Styled("ready", terminal.Green)
		switch {
		case !provider.Ready():
			status = terminal.Styled("set "+provider.Missing, terminal.Yellow)
		case provider.KeyEnv != "":
			status.Text += ", by " + provider.KeyEnv
		default:
			status.Text += ", needs no key"
		}
		providers.Add(terminal.Styled(provider.Name, terminal.Bold), status, terminal.Styled(terminal.OneLine(provider.URL), terminal.Dim))
	}
	known := terminal.Table{Head: []string{"MODEL", "CONTEXT", "INPUT", "OUTPUT"}, Flex: 0}
	for _, m := range o.Models {
		known.Add(terminal.Styled(m.Name, terminal.Bold), terminal.Styled(lengthText(m.Context), terminal.Plain), terminal.Styled(priceText(m.Price, false), terminal.Plain), terminal.Styled(priceText(m.Price, true), terminal.Plain))
	}
	if err := p.Out.Print(providers.Layout(p.Out) + "\n" + known.Layout(p.Out)); err != nil {
		return err
	}
	p.Err.Status("dollars for a million tokens, as of %s", o.Date)
	return nil
}

// lengthText returns a number of tokens, in words where it is not known.
func lengthText(tokens int) string {
	if tokens == 0 {
		return "–"
	}
	return strconv.Itoa(tokens)
}

func priceText(of *catalog.Price, output bool) string {
	switch {
	case of == nil:
		return "–"
	case output:
		return of.Output.String()
	}
	return of.Input.String()
}

func (p *program) modelsCheckCommand() *cobra.Command {
	var patience time.Duration
	cmd := &cobra.Command{
		Use: "check [NAME]", Short: "ask a provider or a model whether it answers", Args: cobra.MaximumNArgs(1),
		Long: `Ask whether models can be reached. NAME is a provider, which is asked for its list of
models at no cost, or provider/model, which is asked for a word and may cost a fraction of
a cent. Without NAME every provider that is set up is asked. With --json: an array
of what was found.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if patience <= 0 {
				return &session.InvalidError{Field: "timeout", Reason: "is not longer than 0"}
			}
			ctx, stop := p.Interrupts.Watch(cmd.Context())
			defer stop()
			c, err := p.Catalog()
			if err != nil {
				return err
			}
			return p.checkModels(ctx, c, args, patience)
		},
	}
	cmd.Flags().DurationVar(&patience, "timeout", 20*time.Second, "how long to wait for each, a `TIME` such as 20s")
	return cmd
}

// checkModels asks each, also after one that fails; the first failure is the
// command's.
func (p *program) checkModels(ctx context.Context, c *catalog.Catalog, names []string, patience time.Duration) error {
	if len(names) == 0 {
		names = p.UsableProviders(c)
	}
	if len(names) == 0 {
		return &setup.UnavailableError{What: "no provider of models is set up", Remedy: `see what each needs: holdfast models list`}
	}
	found, first := []catalog.Health{}, error(nil)
	for _, name := range names {
		h, err := p.checkModel(ctx, c, name, patience)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && first == nil:
			first = err
		case err != nil:
			p.report(err)
		case p.JSON:
			found = append(found, h)
		default:
			err = p.Out.Print(healthText(name, h))
		}
		if errors.Is(err, terminal.ErrReaderGone) {
			return err
		}
	}
	if p.JSON {
		if err := p.PrintJSON(found); err != nil {
			return err
		}
	}
	return first
}

func (p *program) checkModel(ctx context.Context, c *catalog.Catalog, name string, patience time.Duration) (catalog.Health, error) {
	if name == offline.Name {
		return catalog.Health{Provider: "offline", Model: name}, nil
	}
	if p.Offline {
		return catalog.Health{}, &setup.UnavailableError{What: fmt.Sprintf("%q runs on a server, and --offline refuses it", name), Remedy: "run without --offline"}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h, err := c.Check(ctx, name)
	if err == nil {
		return h, nil
	}
	var unknown *session.NotFoundError
	switch {
	case errors.As(err, &unknown):
		return h, &setup.UnavailableError{What: err.Error(), Remedy: "see: holdfast models list"}
	case errors.Is(err, session.ErrUnsupported):
		return h, err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return h, &modelError{fmt.Errorf("%s did not answer within %s", name, patience)}
	case refusedKey(err):
		return h, &modelError{fmt.Errorf("%s: %w", keyOf(c, name), err)}
	}
	return h, &modelError{err}
}

// modelError is a model, or the way to it, that failed.
type modelError struct{ err error }

func (e *modelError) Error() string { return e.err.Error() }

func (e *modelError) Unwrap() []error { return []error{errModel, e.err} }

func refusedKey(err error) bool {
	var told *llm.ProviderError
	return errors.As(err, &told) && (told.Status == http.StatusUnauthorized || told.Status == http.StatusForbidden)
}

// keyOf says where a refused key came from.
func keyOf(c *catalog.Catalog, name string) string {
	provider, _, _ := strings.Cut(name, "/")
	for _, s := range c.Providers() {
		if s.Name == provider && s.KeyEnv != "" {
			return "the key in " + s.KeyEnv + " was refused"
		}
	}
	return "the request was refused for want of a key"
}

func healthText(name string, h catalog.Health) string {
	text := fmt.Sprintf("%s: ok", terminal.OneLine(name))
	if h.Model == "" {
		text += " · " + terminal.CountOf(len(h.Models), "model")
	} else if used := h.Usage.Total(); used > 0 {
		text += " · " + terminal.CountOf(int(used), "token")
	}
	if h.Cost > 0 {
		text += " · $" + h.Cost.String()
	}
	return text + " · " + terminal.DurationText(h.Took) + "\n"
}
