package cs336.kernels.norms;

/**
 * RMSNorm and its gradients in Java doubles, as in the formulas.
 *
 * @param dxTerm largest magnitude of dx's first term, r · g; the rounding error of dx is relative to it
 */
record RmsNormReference(double[] y, double[] dx, double[] dw, double dxTerm) {
    static RmsNormReference of(double[] x, double[] weight, double[] dy, double eps) {
        int width = weight.length;
        double dxTerm = 0;
        double[] y = new double[x.length], dx = new double[x.length], dw = new double[width];
        for (int from = 0; from < x.length; from += width) {
            double squares = 0;
            for (int h = 0; h < width; h++) {
                squares += x[from + h] * x[from + h];
            }
            double r = 1 / Math.sqrt(squares / width + eps);
            double dot = 0;
            for (int h = 0; h < width; h++) {
                dot += dy[from + h] * weight[h] * x[from + h];
            }
            for (int h = 0; h < width; h++) {
                double xh = x[from + h], dyh = dy[from + h];
                y[from + h] = xh * r * weight[h];
                dxTerm = Math.max(dxTerm, Math.abs(r * dyh * weight[h]));
                dx[from + h] = r * dyh * weight[h] - r * r * r * xh * dot / width;
                dw[h] += dyh * xh * r;
            }
        }
        return new RmsNormReference(y, dx, dw, dxTerm);
    }
}
