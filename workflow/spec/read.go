package spec

import (
	"errors"
	"math"
	"net/url"
	"regexp"
)

var (
	identifier = regexp.MustCompile(`^[A-Za-z0-9._:-]+$`)
	tag        = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)
	toolName   = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// specField reads a whole spec whose agents are resolved.
func specField(s *Spec) field {
	return keys(
		must("version", versionField(&s.Version)),
		must("name", filled(&s.Name)),
		may("description", str(&s.Description)),
		may("tags", unique(&s.Tags, like(tag))),
		may("metadata", ptr(&s.Metadata, metadataField)),
		must("runtime", runtimeField(&s.Runtime)),
		may("inputs", inputsField(&s.Inputs)),
		may("env", environmentField(&s.Env)),
		may("telemetry", ptr(&s.Telemetry, telemetryField)),
		may("context_policy", ptr(&s.Context, contextField)),
		may("skills", listOf(&s.Skills, skillField)),
		may("tools", toolsField(&s.Tools)),
		must("agents", someOf(&s.Agents, agentField)),
		must("pattern", patternField(&s.Pattern)),
		may("outputs", outputsField(&s.Outputs)),
		may("security", securityField(&s.Security)),
	)
}

func metadataField(m *Metadata) field {
	return keys(
		may("name", str(&m.Name)),
		may("description", str(&m.Description)),
		may("labels", mapOf(&m.Labels, str)),
	)
}

func runtimeField(rt *Runtime) field {
	return keys(
		must("provider", filled(&rt.Provider)),
		may("model_id", filled(&rt.ModelID)),
		may("region", filled(&rt.Region)),
		may("host", checked(absoluteURL)(&rt.Host)),
		may("space_id", str(&rt.SpaceID)),
		may("temperature", ptr(&rt.Temperature, upTo(2))),
		may("top_p", ptr(&rt.TopP, upTo(1))),
		may("max_tokens", ptr(&rt.MaxTokens, atLeast(1))),
		may("max_parallel", ptr(&rt.MaxParallel, atLeast(1))),
		may("budgets", ptr(&rt.Budgets, budgetsField)),
		may("failure_policy", ptr(&rt.FailurePolicy, failureField)),
	)
}

func absoluteURL(s string) error {
	if u, err := url.Parse(s); err != nil || u.Scheme == "" || u.Host == "" {
		return errors.New("is not a URI with a scheme and a host")
	}
	return nil
}

func budgetsField(b *Budgets) field {
	return keys(
		may("max_steps", ptr(&b.MaxSteps, atLeast(1))),
		may("max_tokens", ptr(&b.MaxTokens, atLeast(1))),
		may("max_duration_s", ptr(&b.MaxDurationS, atLeast(1))),
		may("warn_threshold", ptr(&b.WarnThreshold, upTo(1))),
	)
}

func failureField(f *FailurePolicy) field {
	return func(r *reader, p string, n *node) {
		keys(
			may("retries", ptr(&f.Retries, atLeast(0))),
			may("backoff", ptr(&f.Backoff, oneOf(Constant, Exponential, Jittered))),
			may("wait_min", ptr(&f.WaitMin, upTo(math.MaxInt32))),
			may("wait_max", ptr(&f.WaitMax, upTo(math.MaxInt32))),
		)(r, p, n)
		if retry := f.Retry(); retry.WaitMin > retry.WaitMax {
			r.problem(p, n, "waits %s s at least and %s s at most", short(retry.WaitMin), short(retry.WaitMax))
		}
	}
}

func inferenceField(i *Inference) field {
	return keys(
		may("temperature", ptr(&i.Temperature, upTo(2))),
		may("top_p", ptr(&i.TopP, upTo(1))),
		may("max_tokens", ptr(&i.MaxTokens, atLeast(1))),
	)
}

func inputsField(i *Inputs) field {
	return keys(
		may("required", mapOf(&i.Required, varField)),
		may("optional", mapOf(&i.Optional, varField)),
		may("values", mapOf(&i.Values, scalar)),
	)
}

func environmentField(e *Environment) field {
	return keys(
		may("secrets", listOf(&e.Secrets, func(s *Secret) field {
			return keys(
				must("key", like(identifier)(&s.Key)),
				must("source", oneOf("env", "secrets_manager", "ssm", "file")(&s.Source)),
				may("name", str(&s.Name)),
				may("path", str(&s.Path)),
			)
		})),
		may("mounts", mapOf(&e.Mounts, str)),
	)
}

func telemetryField(t *Telemetry) field {
	t.Redact = Redact{ToolInputs: true}
	return keys(
		may("otel", ptr(&t.OTel, func(o *OTel) field {
			o.SampleRatio = 1
			return keys(
				may("endpoint", str(&o.Endpoint)),
				may("service_name", str(&o.ServiceName)),
				may("sample_ratio", upTo(1)(&o.SampleRatio)),
			)
		})),
		may("redact", keys(
			may("tool_inputs", flag(&t.Redact.ToolInputs)),
			may("tool_outputs", flag(&t.Redact.ToolOutputs)),
		)),
	)
}

func contextField(c *ContextPolicy) field {
	return keys(
		may("compaction", ptr(&c.Compaction, func(c *Compaction) field {
			*c = Compaction{Enabled: true, WhenTokensOver: 60_000, SummaryRatio: 0.35, PreserveRecentMessages: 12}
			return keys(
				may("enabled", flag(&c.Enabled)),
				may("when_tokens_over", atLeast(1000)(&c.WhenTokensOver)),
				may("summary_ratio", upTo(1)(&c.SummaryRatio)),
				may("preserve_recent_messages", atLeast(1)(&c.PreserveRecentMessages)),
				may("summarization_model", filled(&c.SummarizationModel)),
			)
		})),
		may("notes", ptr(&c.Notes, func(n *Notes) field {
			n.IncludeLast, n.Format = 12, "markdown"
			return keys(
				must("file", filled(&n.File)),
				may("include_last", atLeast(1)(&n.IncludeLast)),
				may("format", oneOf("markdown", "json")(&n.Format)),
			)
		})),
		may("retrieval", ptr(&c.Retrieval, func(r *Retrieval) field {
			return keys(
				may("jit_tools", listOf(&r.JITTools, like(toolName))),
				may("mcp_servers", listOf(&r.MCPServers, like(toolName))),
			)
		})),
	)
}

func skillField(s *Skill) field {
	return keys(
		must("id", like(identifier)(&s.ID)),
		must("path", filled(&s.Path)),
		may("description", str(&s.Description)),
		may("preload_metadata", flag(&s.PreloadMetadata)),
	)
}

func toolsField(t *Tools) field {
	return keys(
		may("python", listOf(&t.Python, pythonField)),
		may("http_executors", listOf(&t.HTTPExecutors, executorField)),
		may("mcp", listOf(&t.MCP, serverField)),
	)
}

func executorField(e *HTTPExecutor) field {
	e.TimeoutMS = 30_000
	return func(r *reader, p string, n *node) {
		keys(
			must("id", filled(&e.ID)),
			must("base_url", checked(r.guard)(&e.BaseURL)),
			may("headers", mapOf(&e.Headers, str)),
			may("timeout_ms", atLeast(1)(&e.TimeoutMS)),
			may("description", str(&e.Description)),
			may("examples", examplesField(&e.Examples)),
			may("common_endpoints", listOf(&e.CommonEndpoints, func(e *Endpoint) field {
				return keys(
					must("path", filled(&e.Path)),
					must("description", str(&e.Description)),
					may("method", filled(&e.Method)),
				)
			})),
			may("response_format", str(&e.ResponseFormat)),
			may("authentication_info", str(&e.AuthenticationInfo)),
		)(r, p, n)
	}
}

// serverField takes a server to start or one to reach, by the key it has.
func serverField(m *MCPServer) field {
	return func(r *reader, p string, n *node) {
		if n.get("url") != nil {
			keys(
				must("id", filled(&m.ID)),
				must("url", checked(absoluteURL)(&m.URL)),
				may("headers", mapOf(&m.Headers, str)),
			)(r, p, n)
			return
		}
		keys(
			must("id", filled(&m.ID)),
			must("command", filled(&m.Command)),
			may("args", listOf(&m.Args, str)),
			may("env", mapOf(&m.Env, str)),
		)(r, p, n)
	}
}

func agentField(a *Agent) field {
	return keys(
		must("prompt", str(&a.Prompt)),
		may("tools", kept(&a.Tools)),
		may("provider", filled(&a.Provider)),
		may("model_id", filled(&a.ModelID)),
		may("inference", ptr(&a.Inference, inferenceField)),
		may("input_schema", ptr(&a.InputSchema, schemaField)),
		may("output_schema", ptr(&a.OutputSchema, schemaField)),
	)
}

func outputsField(o *Outputs) field {
	return keys(may("artifacts", listOf(&o.Artifacts, func(a *Artifact) field {
		return keys(must("path", filled(&a.Path)), must("from", str(&a.From)))
	})))
}

func securityField(s *Security) field {
	return keys(may("guardrails", ptr(&s.Guardrails, func(g *Guardrails) field {
		return keys(
			may("deny_network", flag(&g.DenyNetwork)),
			may("pii_redaction", flag(&g.PIIRedaction)),
			may("allow_tools", kept(&g.AllowTools)),
		)
	})))
}
