// Times, numbers and money as people read them. The exact value is always near.

class Clock {
  now = $state(Date.now())
  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now()
    }, 1000 * 10)
    document.addEventListener('visibilitychange', () => (this.now = Date.now()))
  }
}

/** The time, which moves every ten seconds. */
export const clock = new Clock()

const units: [number, string][] = [
  [365 * 86400, 'y'],
  [30 * 86400, 'mo'],
  [86400, 'd'],
  [3600, 'h'],
  [60, 'min'],
]

/** How long ago a time is: "5 min ago", "in 2 h". */
export function relativeTime(at: number, now: number): string {
  const seconds = Math.round((now - at) / 1000)
  const size = Math.abs(seconds)
  if (size < 45) return seconds < -10 ? 'in a moment' : 'just now'
  const [length, name] = units.find(([length]) => size >= length * 0.95) ?? [60, 'min']
  const text = `${Math.max(1, Math.round(size / length))} ${name}`
  return seconds < 0 ? `in ${text}` : `${text} ago`
}

/** A time with everything: local, with seconds and zone. */
export function exactTime(at: number): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' })
}

/** How long something took: "320 ms", "4.2 s", "3 min 20 s". */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  const minutes = Math.floor(ms / 60_000)
  return minutes < 60 ? `${minutes} min ${Math.round((ms % 60_000) / 1000)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** A number with separators, in the reader's way. */
export function count(n: number | { toString(): string }): string {
  return typeof n === 'number' ? n.toLocaleString() : BigInt(n.toString()).toLocaleString()
}

/** Money in dollars, with as many digits as it needs. */
export function money(dollars: number): string {
  if (dollars === 0) return '$0'
  return `$${dollars < 0.01 ? dollars.toFixed(6).replace(/0+$/, '') : dollars.toFixed(2)}`
}

/** How many: "1 message", "2 messages". */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`
}

/** Bytes as people say them. */
export function bytes(n: number): string {
  return n < 1024 ? `${n} B` : n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`
}
