// A page that fails shows so, and leaves the rest of the console alive.
import { Component, type ReactNode } from "react";
import { Problem } from "./problem";

export class Boundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };
  static getDerivedStateFromError(error: Error) {
    return { error };
  }
  override render() {
    if (!this.state.error) return this.props.children;
    return <Problem error={this.state.error} retry={() => location.reload()} />;
  }
}
