#include <bits/stdc++.h>
using namespace std;
#define ll long long

__global__ void knapsack(int *f, const int *old, int weight, int value, int W)
{
    int w = blockIdx.x * blockDim.x + threadIdx.x;
    if (w > W) return;
    f[w] = old[w];
    if (w >= weight) f[w] = std::max(f[w], old[w - weight] + value);
}

ll solve(vector<int> &w, vector<int> &v)
{
    priority_queue<ll> q;
    for (auto x : w) q.push(x);
    return q.size();
}

signed main()
{
    ios::sync_with_stdio(false);
    int n;
    cin >> n;
    cout << n;
}
